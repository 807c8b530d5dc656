"""Model card of contents that are pushed: their own, or one that is made where they have none."""

from mntrain.artifact import read_config
from mntrain.errors import ArtifactError, ConfigError
from mntrain.hub.contents import CARD, Contents
from mntrain.model_card.artifact_card import artifact_card
from mntrain.model_card.front_matter import LIBRARY
from mntrain.regular_files import read_text


def pushed_card(contents: Contents, license_name: str | None) -> bytes | None:
    """Make the card that is sent.

    Args:
        contents: what is pushed.
        license_name: the hub's word for a license, such as ``apache-2.0``; None leaves the card as it is.

    Returns:
        The text; None where the contents have their card and it stays as it is.

    Raises:
        ConfigError: a license cannot be added, since the card's front matter cannot be read.
        ArtifactError: the card cannot be read.
    """
    has_card = CARD in contents.files
    if has_card and license_name is None:
        return None
    try:
        text = read_text(contents.folder / CARD) if has_card else _made(contents)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{contents.folder / CARD} cannot be read ({error}); correct or remove it.") from error
    return (text if license_name is None else _licensed(text, license_name, contents)).encode()


def _made(contents: Contents) -> str:
    if contents.kind == "artifact":
        return artifact_card(read_config(contents.folder))
    from mntrain.hugging_face_hub import ModelCardData

    data = ModelCardData(library_name=LIBRARY, tags=[LIBRARY, "onnx"])
    models = contents.models or (contents.folder.resolve().name,)
    cards = [f"{name}/{CARD}" for name in models]
    lines = [
        f"- [{name}]({card})" if card in contents.files else f"- {name}"
        for name, card in zip(models, cards, strict=True)
    ]
    page = "\n".join(lines)
    return (
        f"---\n{data.to_yaml()}\n---\n\n# Model repository\n\nModels in Triton's layout, exported by mn-runtime "
        f"(`mnexport`):\n\n{page}\n\n```sh\nmnserve serve path/to/repository\n```\n"
    )


def _licensed(text: str, license_name: str, contents: Contents) -> str:
    import yaml

    from mntrain.hugging_face_hub import ModelCard

    try:
        card = ModelCard(text, ignore_metadata_errors=True)
        card.data["license"] = license_name
        return str(card)
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(
            f"The license cannot be added to {contents.folder / CARD}, whose front matter cannot be read; correct the "
            "page, or leave --license out."
        ) from error
