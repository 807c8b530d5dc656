"""Run static forms in PyTorch under CUDA graphs, where ONNX Runtime has no GPU build.

Shapes: a call has B rows; the buffers of its batch size have N >= B rows.
"""

import copy
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from gpu_checks.budget import Budget
from gpu_checks.forms import Forms, lowered
from gpu_checks.models import CheckedModel
from gpu_checks.parity import Answers, Run

_WARM_UP_RUNS = 3


class TorchRunner:
    """Runs static forms in PyTorch.

    Args:
        device: cuda or cpu.
        sizes: batch sizes with buffers, captured on a GPU.
    """

    label = "PyTorch"

    def __init__(self, device: str, sizes: Sequence[int]) -> None:
        self._device, self._sizes = torch.device(device), sorted(sizes)

    @property
    def mode(self) -> str:
        """Description of the way in which batches run."""
        graphs = self._device.type == "cuda"
        return "torch.cuda.CUDAGraph on static tensors" if graphs else "plain calls on static tensors"

    def reference(self, checked: CheckedModel, forms: Forms) -> Answers:
        """Compute the CPU's answers in float32, all samples in one batch."""
        with torch.inference_mode():
            outputs = forms.adaptive(torch.from_numpy(checked.samples))
        return {name: tensor.numpy() for name, tensor in zip(checked.outputs, outputs, strict=True)}

    @contextmanager
    def pair(self, checked: CheckedModel, forms: Forms, dtype: str, *, tf32: bool) -> Iterator[tuple[Run, Run]]:
        """Prepare the adaptive and the vanilla model."""
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        forms_in_dtype = lowered(forms, dtype)
        example = torch.from_numpy(checked.samples[:1])
        adaptive, vanilla = (
            FixedModule(module, self._sizes, example, self._device, checked.outputs)
            for module in (forms_in_dtype.adaptive, forms_in_dtype.vanilla)
        )
        yield adaptive.run, vanilla.run

    @contextmanager
    def further(self, checked: CheckedModel, forms: Forms, dtype: str, budget: Budget) -> Iterator[dict[str, Run]]:
        """Open no further engine."""
        yield {}


class FixedModule:
    """Module with buffers for fixed batch sizes; larger batches run without buffers.

    Args:
        module: module, inputs -> outputs; it is copied.
        sizes: batch sizes, ascending.
        example: one input [1, ...].
        device: device of the module; runs are captured on a GPU.
        outputs: names of the outputs.
    """

    def __init__(
        self, module: nn.Module, sizes: Sequence[int], example: Tensor, device: torch.device, outputs: tuple[str, ...]
    ) -> None:
        self._module = copy.deepcopy(module).to(device)
        self._sizes, self._device, self._names = list(sizes), device, outputs
        self._inputs = [example.new_zeros((size, *example.shape[1:]), device=device) for size in sizes]
        with torch.inference_mode():
            self._replays = [self._prepared(buffer) for buffer in self._inputs]

    @torch.inference_mode()
    def run(self, inputs: np.ndarray) -> Answers:
        """Run inputs [B, ...]; the outputs [B, ...] are copies."""
        rows, index = len(inputs), bisect_left(self._sizes, len(inputs))
        if index == len(self._sizes):
            outputs = self._module(torch.from_numpy(inputs).to(self._device))
        else:
            buffer = self._inputs[index]
            buffer[:rows].copy_(torch.from_numpy(inputs))
            buffer[rows:].zero_()
            outputs = self._replays[index]()
        answers = (tensor[:rows].to("cpu", copy=True).numpy() for tensor in outputs)
        return dict(zip(self._names, answers, strict=True))

    def _prepared(self, buffer: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        """Make a function that runs the content of ``buffer``, always into the same tensors."""
        if self._device.type != "cuda":
            outputs: tuple[Tensor, ...] = self._module(buffer)

            def again() -> tuple[Tensor, ...]:
                for output, new in zip(outputs, self._module(buffer), strict=True):
                    output.copy_(new)
                return outputs

            return again
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_RUNS):
                self._module(buffer)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured: tuple[Tensor, ...] = self._module(buffer)

        def replay() -> tuple[Tensor, ...]:
            graph.replay()
            return captured

        return replay
