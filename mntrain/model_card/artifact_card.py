"""Model card of an artifact: its ``README.md``. Equal artifacts have equal cards."""

from typing import Final

from mntrain.artifact_config import ArtifactConfig
from mntrain.model_card.markdown import aligned, escaped, section
from mntrain.model_card.sections import adaptation_section, data_section, score_section, version_section
from mntrain.model_card.subject import front_matter_of, subject_lines, task_of

CARD_NAME: Final = "README.md"
_FOLDER: Final = "path/to/this/folder"


def artifact_card(config: ArtifactConfig) -> str:
    """Write the card of an artifact.

    Args:
        config: content of its ``config.json``.

    Returns:
        Front matter and page, in Markdown. Names of classes, columns and data are escaped.
    """
    name = config.experiment.name
    parts = [
        front_matter_of(config, name).text(),
        f"# {escaped(name)}",
        f"A model for {task_of(config).replace('-', ' ')}, trained with mn-runtime (`mntrain`).",
        subject_lines(config),
        score_section(config),
        adaptation_section(config),
        data_section(config),
        _use(config),
        version_section(config.versions),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _use(config: ArtifactConfig) -> str:
    rows = task_of(config) != "image-classification"
    examples = "new-rows.csv" if rows else "image.png"
    commands = aligned(
        (f"mntrain evaluate {_FOLDER} --data.path new-data", "labelled data that the model has never seen"),
        (f"mnexport {_FOLDER} repository/model", "a static ONNX graph, checked against this model"),
        (f"mnserve predict repository/model {examples}", "answers in this process, without a server"),
        ("mnserve serve repository", "over gRPC, for clients of Triton"),
    )
    note = ""
    if config.network is not None:
        note = (
            "The frozen network is not in this folder: `config.json` names it with its digest, and commands that take "
            "images need it at hand."
        )
    return section("How to use", commands, note)
