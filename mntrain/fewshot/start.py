"""The artifact that few-shot methods start from."""

from pathlib import Path

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.config import recipe_names
from mntrain.errors import ArtifactError, ConfigError


def start_artifact(path: Path) -> ImageArtifact:
    """Load an artifact of images.

    Raises:
        ArtifactError: it is missing or damaged, or takes rows.
        ConfigError: the path is the name of a recipe.
    """
    if not path.exists() and str(path) in recipe_names():
        raise ConfigError(
            f"{str(path)!r} is a recipe, and few-shot methods start from a trained network: run `mntrain fit {path}`, "
            "and give runs/NAME/artifact."
        )
    artifact = load_artifact(path)
    if not isinstance(artifact, ImageArtifact):
        raise ArtifactError(f"{path} holds a model of rows; few-shot learning takes an artifact of images.")
    return artifact
