"""Model of a repository in this process, without a server, for predict and bench.

The model is found, checked and completed as by a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from mnserve.engines.base import Engine, EngineOptions
from mnserve.models.load_options import LoadOptions
from mnserve.models.loading import load
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.labels import label_outputs, read_labels
from mnserve.repository.model_files import verified_path
from mnserve.repository.model_parameters import decides_batching
from mnserve.repository.reader import list_versions, read_config, read_model, served_versions

Array = np.ndarray[Any, Any]

NEIGHBORS_NAME = "neighbors.npz"


class OpenedModel:
    """The default version of a model, loaded; a context manager that frees it.

    Args:
        root: Folder of the repository.
        name: Name of the model.
        options: Options of its engine.

    Attributes:
        engine: Engine of the model.
        version: Number of the loaded version.
        file: Name of the file that computes the default outputs.

    Raises:
        RepositoryError: The model is missing or damaged, or its configuration does not fit.
        EngineLoadError: The engine cannot load the model.
    """

    def __init__(self, root: Path, name: str, options: EngineOptions | None = None) -> None:
        versions = served_versions(read_config(root, name), list_versions(root, name))
        if not versions:
            read_model(root, name)  # raises with the reason
        # A warm-up is for a server; but without a configuration nothing else shows whether rows may be joined.
        decided = decides_batching(read_config(root, name))
        load_options = LoadOptions(engine=options or EngineOptions(), warm_up=not decided, alone=True)
        loaded = load(root, name, versions[-1], load_options)
        try:
            self._labels = _read_labels(root, loaded.config)
            self._training_images = verified_path(read_model(root, name, loaded.version), NEIGHBORS_NAME)
        except BaseException:
            loaded.engine.close()
            raise
        self.engine: Engine = loaded.engine
        self.version: int = loaded.version
        self.file: str = loaded.file
        self._config = loaded.config
        self._rules = loaded.signature.input_rules

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the model."""
        self.engine.close()

    @property
    def config(self) -> ModelConfig:
        """Complete configuration."""
        return self._config

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names from the label file; empty without a label file."""
        return self._labels

    @property
    def training_images(self) -> Path | None:
        """File of the training images nearest to each neighbor; None if the model was published without one."""
        return self._training_images

    def infer(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        """Runs one batch: input name -> array in, output name -> array out.

        Raises:
            InvalidRequestError: Sizes or values break a rule that a server checks, too.
            EngineRunError: The model cannot run on these inputs.
        """
        self._rules.check_shapes(self._config.name, {name: array.shape for name, array in feeds.items()})
        self._rules.check_values(self._config.name, feeds)
        return dict(zip(outputs, self.engine.run(feeds, outputs), strict=True))


def _read_labels(root: Path, config: ModelConfig) -> tuple[str, ...]:
    """Reads the lines of the first label file that an output names, one for each class."""
    for output in label_outputs(config):
        return read_labels(root / config.name, output, config.name)
    return ()
