"""Options of an evaluation."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mntrain.errors import ConfigError

Split = Literal["test", "validation", "train", "all"]
UnknownClasses = Literal["refuse", "ignore"]


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Artifact, examples and figures of an evaluation.

    Args:
        artifact: folder of the artifact, runs/NAME/artifact.
        split: part of the data; None is ``test`` of the run's data, and everything of new data.
        data_path: where the data of the run lies now, if it has moved.
        new_data: fields of ``DataConfig`` that say where new data lies and how it is read; empty for the run's data.
        unknown_classes: refuse new data with classes that the model does not know, or leave those examples out.
        batch_size: examples at a time.
        baselines: measure methods of scikit-learn beside the model.
        output: folder for figures and predictions; None writes no files.

    Raises:
        ConfigError: options contradict each other, or batches would be empty.
    """

    artifact: Path
    split: Split | None = None
    data_path: str | None = None
    new_data: Mapping[str, Any] = field(default_factory=dict)
    unknown_classes: UnknownClasses = "refuse"
    batch_size: int = 500
    baselines: bool = False
    output: Path | None = None

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"--batch-size is {self.batch_size}; it must be at least 1.")
        if self.new_data and self.new_data.get("path") is None:
            first = next(iter(self.new_data))
            raise ConfigError(
                f"--data.{first} says how new data is read, but --data.path is not given; add --data.path NEW. (Where "
                "the data of the run has moved, give --data-path.)"
            )
        if self.unknown_classes == "ignore" and not self.new_data:
            raise ConfigError(
                "--unknown-classes is 'ignore', but the data of the run has no unknown classes; add --data.path NEW, "
                "or leave it out."
            )
        self._check_output()
        if self.data_path is not None and self.new_data and not self.baselines:
            raise ConfigError(
                f"--data-path is {self.data_path!r}, the place of the run's own data, which is not read beside "
                "--data.path; leave it out, or add --baselines."
            )

    def _check_output(self) -> None:
        """Refuse to write tables and pictures among the data, which the next reading would take for data."""
        for given in (self.new_data.get("path"), self.data_path):
            if self.output is None or not isinstance(given, str) or not os.path.isdir(given):
                continue
            data, output = Path(os.path.realpath(given)), Path(os.path.realpath(self.output))
            if output.is_relative_to(data):
                raise ConfigError(
                    f"--output is {str(self.output)!r}, which lies in the data at {given!r}: its files would be read "
                    "as data the next time; give a folder outside of it."
                )
