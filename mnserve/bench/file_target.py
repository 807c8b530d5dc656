"""An ONNX file outside of any repository as a timed model: a network as it was before something was added to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mnserve.bench.timing import Call
from mnserve.engines.base import Engine, EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.errors import BenchError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_config import complete

Array = np.ndarray[Any, Any]

_MOST_ROWS: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class FileTarget:
    """An ONNX file in this process: the engine alone. Its inputs are those that the file declares."""

    path: Path
    engine: Engine
    config: ModelConfig

    @classmethod
    def open(cls, path: Path, options: EngineOptions) -> FileTarget:
        """Loads a file; all of its outputs are computed in a call.

        Raises:
            BenchError: There is no such file, or it takes a fixed batch of several rows.
            EngineLoadError: The engine cannot load it.
        """
        if not path.is_file():
            raise BenchError(
                f"there is no file {path}; --against takes the path of an ONNX file, or the name of a model of the "
                "repository"
            )
        engine = OnnxRuntimeEngine(path, options)
        firsts = {spec.shape[0] for spec in engine.inputs if spec.shape and not spec.optional}
        fixed = firsts - {-1, 1}
        if fixed:
            engine.close()
            raise BenchError(
                f"{path} takes exactly {min(fixed)} rows at a time, which cannot be timed at other batch sizes; export "
                "it with a batch axis of any size"
            )
        rows = _MOST_ROWS if firsts == {-1} else 0
        config = complete(ModelConfig(name=path.name), engine.inputs, engine.outputs, max_batch_size=rows)
        return cls(path=path, engine=engine, config=config)

    @property
    def version(self) -> str:
        """Empty: a file has none."""
        return ""

    @property
    def file(self) -> str:
        """The path."""
        return str(self.path)

    def call(self, feeds: Mapping[str, Array], datatypes: Mapping[str, str]) -> Call:
        """Prepares one run of the engine."""
        run, outputs = self.engine.run, [output.name for output in self.config.output]
        return lambda: run(feeds, outputs)

    def __enter__(self) -> FileTarget:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()
