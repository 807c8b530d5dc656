"""ONNX Runtime on copies of models that give further tensors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import ModelProto

from mnexport.errors import GraphError
from mnexport.runtime import onnxruntime
from mnexport.scratch import scratch_folder


class ExposedModel:
    """A model on the CPU that gives tensors by name, outputs or not.

    Args:
        model: to run; not changed.
        names: of the tensors.
        origin: file that it is from, for messages.

    Raises:
        GraphError: ONNX Runtime does not load it.
    """

    def __init__(self, model: ModelProto, names: Sequence[str], origin: Path) -> None:
        self.names = list(names)
        self.origin = origin
        exposed = ModelProto()
        exposed.CopyFrom(model)
        given = {item.name for item in exposed.graph.output}
        exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.names if name not in given)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        with scratch_folder() as folder:
            file = folder / "exposed.onnx"  # in memory a model may have half the size
            onnx.save(exposed, str(file))
            try:
                self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
            except Exception as error:  # ONNX Runtime's exception types share no public base class
                raise GraphError(f"ONNX Runtime does not load {origin}: {' '.join(str(error).split())}") from error

    def run(self, feeds: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Compute the tensors.

        Raises:
            GraphError: ONNX Runtime does not run the model on this batch.
        """
        try:
            outputs: list[NDArray[Any]] = self._session.run(self.names, feeds)
        except Exception as error:  # ONNX Runtime's exception types share no public base class
            batch = len(next(iter(feeds.values())))
            reason = " ".join(str(error).split())
            raise GraphError(
                f"ONNX Runtime does not run {self.origin} on a batch of {batch} ({reason}); a server joins requests, "
                "so export the network with a batch axis of any size."
            ) from error
        return outputs
