"""Label files of a model: names of the classes of an output, one a line, named by ``label_filename``."""

from __future__ import annotations

import logging
from pathlib import Path, PurePosixPath

from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelOutput
from mnserve.text.text_files import read_text

_log = logging.getLogger(__name__)


def label_outputs(config: ModelConfig) -> list[ModelOutput]:
    """Lists the outputs of a configuration that name a label file."""
    return [output for output in config.output if output.label_filename]


def labels_by_output(config: ModelConfig, folder: Path) -> dict[str, tuple[str, ...]]:
    """Reads every label file of a model. Scores do not depend on them, so that a missing one causes a warning.

    Args:
        config: Configuration of the model.
        folder: Folder of the model.
    """
    labels = {}
    for output in label_outputs(config):
        try:
            labels[output.name] = read_labels(folder, output, config.name)
        except ModelConfigError as error:
            _log.warning("%s; until then its classes have no names", error)
    return labels


def read_labels(folder: Path, output: ModelOutput, model: str) -> tuple[str, ...]:
    """Reads the label file of one output. An empty line is a class without a name.

    Args:
        folder: Folder of the model.
        output: Output with a ``label_filename``, a path below the folder.
        model: Name of the model, for messages.

    Raises:
        ModelConfigError: The file is missing, leads out of the folder, is too large or cannot be read.
    """
    # The configuration may come from a caller, who must not read other files through it.
    name = PurePosixPath(output.label_filename)
    where = f"model '{model}': the label file {folder / name} of output '{output.name}'"
    if name.is_absolute() or ".." in name.parts or "\0" in output.label_filename:
        raise ModelConfigError(
            f"{where} lies outside of the model's folder; put it beside config.pbtxt, and give its name alone"
        )
    try:
        text = read_text(folder / name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelConfigError(
            f"{where} cannot be read ({reason}); put the file there, or remove label_filename from config.pbtxt"
        ) from error
    # Only line feeds end a line; names may contain other separators.
    return tuple(line.strip() for line in text.removesuffix("\n").split("\n"))
