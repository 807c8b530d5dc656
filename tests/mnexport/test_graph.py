"""Graphs: a module that does not become a proper graph is refused, with the cause.

Shapes: image [B, 1, 4, 4], logits [B, 3].
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mnexport.errors import GraphError, UsageError
from mnexport.graph import GraphOptions, write_onnx
from mnexport.signature import image_signature
from mntrain.artifact_config import InputSpec

SPEC = image_signature(InputSpec(channels=1, height=4, width=4), tuple("abc"))


class Probe(nn.Module):
    """Linear classifier; subclasses spoil it."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.linspace(-1, 1, 48).reshape(16, 3))

    def logits(self, image: Tensor) -> Tensor:
        return image.float().flatten(1) @ self.weight

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.logits(image)
        return logits, logits.softmax(-1)


class FixedBatch(Probe):
    def logits(self, image: Tensor) -> Tensor:
        return image.float().reshape(2, 16) @ self.weight


class MixedRows(Probe):
    def logits(self, image: Tensor) -> Tensor:
        return super().logits(image).mean(0, keepdim=True)


class WithEinsum(Probe):
    def logits(self, image: Tensor) -> Tensor:
        return torch.einsum("bi,ic->bc", image.float().flatten(1), self.weight)


class Branch(Probe):
    def logits(self, image: Tensor) -> Tensor:
        logits = super().logits(image)
        return logits * 2 if logits.sum() > 0 else logits


class Gradient(Probe):
    def logits(self, image: Tensor) -> Tensor:
        logits = super().logits(image)
        return logits - torch.func.grad(lambda weight: (logits * weight).sum())(torch.ones(3))


class Unsupported(Probe):
    def logits(self, image: Tensor) -> Tensor:
        return torch.linalg.eigvals(image.float()[:, 0]).abs()[:, :3]


class Broken(Probe):
    def logits(self, image: Tensor) -> Tensor:
        raise RuntimeError("\x1b[96mthe true cause\x1b[0m of it\nand much more")


class Conditional(Probe):
    def logits(self, image: Tensor) -> Tensor:
        logits = super().logits(image)
        return torch.cond(logits.sum() > 0, lambda values: values * 2, lambda values: values - 1, (logits,))


@pytest.mark.parametrize("module", [Probe(), Conditional()], ids=lambda module: type(module).__name__)
def test_a_file_tells_nothing_about_the_machine_that_wrote_it(module: nn.Module, tmp_path: Path) -> None:
    """PyTorch's exporter notes the stack of every node: paths, lines of source files, names of classes."""
    write_onnx(module.eval(), SPEC, 20, {"mn.version": "1"}, tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    assert b"mn.version" in content
    for words in (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent), Path(__file__).name, "stack_trace"):
        assert words.encode() not in content, words
    assert b"class_hierarchy" not in content


def test_a_proper_module_is_written(tmp_path: Path) -> None:
    assert write_onnx(Probe().eval(), SPEC, 20, {}, tmp_path / "m.onnx").size > 0


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (FixedBatch, "image has a first axis 2, not 'batch'"),
        (MixedRows, "logits has a first axis 1, not 'batch'"),
        (WithEinsum, "Einsum"),
    ],
)
def test_a_graph_that_would_fail_in_a_server_is_refused(module: type[Probe], words: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=words):
        write_onnx(module().eval(), SPEC, 20, {}, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "words", "hint"),
    [
        (Branch, "data-dependent", "must not branch on data"),
        (Gradient, "TensorWrapper", "must not take gradients"),
        (Unsupported, "aten.linalg_eig", None),
        (Broken, "RuntimeError: the true cause of it.", None),
    ],
)
def test_a_module_that_cannot_be_traced_is_refused_with_the_cause(
    module: type[Probe], words: str, hint: str | None, tmp_path: Path
) -> None:
    with pytest.raises(GraphError) as caught:
        write_onnx(module().eval(), SPEC, 20, {}, tmp_path / "m.onnx")
    message = str(caught.value)
    assert message.startswith(f"{module.__name__} cannot be traced: ")
    assert words in message
    assert message.isprintable(), "one line, without codes for terminals"
    assert [words for words in ("must not branch on data", "must not take gradients") if words in message] == (
        [hint] if hint else []
    )


def test_wrong_graph_options_are_wrong_usage() -> None:
    with pytest.raises(UsageError, match="float16"):
        GraphOptions(input_type="float16")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Opset 17"):
        GraphOptions(opset=17)
