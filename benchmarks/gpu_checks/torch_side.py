"""PyTorch: the static form under CUDA graphs, where ONNX Runtime has no GPU build.

Shapes: a call brings B rows; the buffers of the batch size that it runs at have N >= B.
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
from gpu_checks.parity import Answers, Run
from gpu_checks.subjects import Subject

_WARM_UP_RUNS = 3


class TorchSide:
    """Runs static forms as they are.

    Args:
        device: cuda or cpu.
        sizes: batch sizes with buffers, captured on a GPU.
    """

    label = "PyTorch"

    def __init__(self, device: str, sizes: Sequence[int]) -> None:
        self._device, self._sizes = torch.device(device), sorted(sizes)

    @property
    def mode(self) -> str:
        """How batches run when they are timed."""
        graphs = self._device.type == "cuda"
        return "torch.cuda.CUDAGraph on static tensors" if graphs else "plain calls on static tensors"

    def reference(self, subject: Subject, forms: Forms) -> Answers:
        """The CPU's answers in float32, all samples in one batch."""
        with torch.inference_mode():
            found = forms.adaptive(torch.from_numpy(subject.samples))
        return {name: tensor.numpy() for name, tensor in zip(subject.outputs, found, strict=True)}

    @contextmanager
    def pair(self, subject: Subject, forms: Forms, dtype: str, *, tf32: bool) -> Iterator[tuple[Run, Run]]:
        """The adaptive and the vanilla model, ready to run."""
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        wanted = lowered(forms, dtype)
        example = torch.from_numpy(subject.samples[:1])
        adaptive, vanilla = (
            FixedModule(module, self._sizes, example, self._device, subject.outputs)
            for module in (wanted.adaptive, wanted.vanilla)
        )
        yield adaptive.run, vanilla.run

    @contextmanager
    def further(self, subject: Subject, forms: Forms, dtype: str, budget: Budget) -> Iterator[dict[str, Run]]:
        """Nothing else."""
        yield {}


class FixedModule:
    """A module at fixed batch sizes; larger batches run without buffers.

    Args:
        module: inputs -> outputs; copied.
        sizes: ascending.
        example: one input [1, ...].
        device: where it runs; captured on a GPU.
        outputs: names of what it gives.
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
        """Inputs [B, ...] -> outputs [B, ...], in memory of their own."""
        rows, index = len(inputs), bisect_left(self._sizes, len(inputs))
        given = torch.from_numpy(inputs)
        if index == len(self._sizes):
            found = self._module(given.to(self._device))
        else:
            buffer = self._inputs[index]
            buffer[:rows].copy_(given)
            buffer[rows:].zero_()
            found = self._replays[index]()
        answers = (tensor[:rows].to("cpu", copy=True).numpy() for tensor in found)
        return dict(zip(self._names, answers, strict=True))

    def _prepared(self, buffer: Tensor) -> Callable[[], tuple[Tensor, ...]]:
        """What computes the outputs of what is in ``buffer``, always into the same tensors."""
        if self._device.type != "cuda":
            found: tuple[Tensor, ...] = self._module(buffer)

            def again() -> tuple[Tensor, ...]:
                for kept, new in zip(found, self._module(buffer), strict=True):
                    kept.copy_(new)
                return found

            return again
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP_RUNS):
                self._module(buffer)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured: tuple[Tensor, ...] = self._module(buffer)

        def replay() -> tuple[Tensor, ...]:
            graph.replay()
            return captured

        return replay
