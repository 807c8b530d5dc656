"""Forms of a model in a repository: ways to say, or not to say, that its rows are not joined."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import onnx
import tritonclient.grpc as triton

_TYPES: Final[Mapping[int, str]] = {
    onnx.TensorProto.FLOAT: "TYPE_FP32",
    onnx.TensorProto.INT64: "TYPE_INT64",
    onnx.TensorProto.BOOL: "TYPE_BOOL",
}


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form.

    Attributes:
        name: name for the table.
        head: first lines of the config.pbtxt; None for no such file.
        tensors: write inputs and outputs into it, too.
        words: further words for `mnserve serve`.
        override: configuration with which the model is loaded by a call; empty for a model that the server loads.
    """

    name: str
    head: str | None = None
    tensors: bool = False
    words: Sequence[str] = ()
    override: Mapping[str, int] = field(default_factory=dict)

    def write(self, repository: Path, name: str, model: bytes) -> None:
        """Write a model into a repository."""
        version = repository / name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").write_bytes(model)
        if self.head is not None:
            text = self.head + (_tensors(onnx.ModelProto.FromString(model)) if self.tensors else "")
            (repository / name / "config.pbtxt").write_text(text)

    def load(self, client: triton.InferenceServerClient, name: str) -> None:
        """Load the model by a call, where the form asks for it."""
        if self.override:
            client.load_model(name, config=json.dumps(dict(self.override)))


def _tensors(model: onnx.ModelProto) -> str:
    lines = []
    for kind, infos in (("input", model.graph.input), ("output", model.graph.output)):
        for info in infos:
            dims = ", ".join(str(dim.dim_value or -1) for dim in info.type.tensor_type.shape.dim)
            datatype = _TYPES[info.type.tensor_type.elem_type]
            lines.append(f'{kind} [ {{ name: "{info.name}" data_type: {datatype} dims: [ {dims} ] }} ]\n')
    return "".join(lines)


FORMS: Final = (
    Form(name="none"),
    Form(name="file", head="max_batch_size: 0\n"),
    Form(name="tensors", head='backend: "onnxruntime"\n', tensors=True),
    Form(name="load", words=("--model-control", "explicit"), override={"max_batch_size": 0}),
)
"""Without a config.pbtxt; with `max_batch_size: 0` alone; with tensors alone; with a configuration in the call."""
