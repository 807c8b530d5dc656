"""Memory that a run needs for the similarities of its network, counted before the network is built.

Shapes: inputs [B, channels, H, W] of one part of a batch.
"""

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mntrain.backbones.config import Shape
from mntrain.config import ExperimentConfig
from mntrain.data.images import ImageData
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.conv import SharedPredictor
from mntrain.layers.similarity.global_similarity import GlobalSimilarity
from mntrain.layers.similarity.predictor import SimilarityPredictor
from mntrain.models.base import Model
from mntrain.training.machine_memory import machine_bytes
from mntrain.training_config import TrainingConfig

Addition = SimilarityPredictor | SharedPredictor | GlobalSimilarity
_STATES = {"adamw": 2, "sgd": 1}
"""Numbers that an optimiser keeps for each one that it trains."""


@dataclass(frozen=True, kw_only=True)
class StepSize:
    """Images that a network sees at once.

    Args:
        rows: B.
        shape: of one input.
        training: whether gradients are computed, or answers alone.
    """

    rows: int
    shape: Shape
    training: bool

    def __str__(self) -> str:
        if self.training:
            return f"a training step of {self.rows} images"
        return f"evaluation of {self.rows} images at once"


@dataclass(frozen=True, kw_only=True)
class StepMemory:
    """Bytes that a step needs at least.

    Args:
        total: weights, state of the optimiser, and the most that the tensors of the step take, gradients too.
        additions: part of it that predictors, and similarities of whole maps, take; by the name of the layer.
    """

    total: int
    additions: Counter[str]


def check_memory(
    config: ExperimentConfig, model: Model, data: ImageData | TableData, shape: Shape, memory: int | None = None
) -> None:
    """Refuse predictors and similarities of whole maps that cannot be trained or evaluated here.

    Only what cannot fit is refused: the count leaves out the data, and what libraries and other programs take.

    Args:
        config: of the run.
        model: on ``meta``, frozen as the run will be.
        data: three splits.
        shape: of one input.
        memory: bytes that there are; by default those of the GPU that the run takes, else of this machine.

    Raises:
        ConfigError: with the setting, the memory that it takes and the memory that there is.
    """
    training = config.training
    on_gpu = training.accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available()
    if memory is None:
        memory = torch.cuda.get_device_properties(0).total_memory if on_gpu else machine_bytes()
    backbone = getattr(model, "backbone", None)
    if memory is None or not isinstance(backbone, nn.Module) or not _additions(backbone):
        return
    share = training.devices if on_gpu else 1  # processes of one machine share its memory
    part = math.ceil(min(training.batch_size, len(data.train)) / training.accumulate)
    evaluated = min(training.evaluation_batch_size, max(len(data.validation), len(data.test)))
    for rows, trains in ((part, True), (evaluated, False)):
        size = StepSize(rows=math.ceil(rows / share), shape=shape, training=trains)
        found = step_memory(model, backbone, size, training)
        if found.total > memory:
            there = f"{'the GPU' if on_gpu else 'this machine'} has {_written(memory)}"
            raise _refusal(config.backbone.similarity, backbone, size, found, there)


def step_memory(model: Model, backbone: nn.Module, size: StepSize, training: TrainingConfig) -> StepMemory:
    """Count the bytes of a step; on ``meta`` without taking any.

    A compiled network may compute again what it would else keep, so only its weights and their gradients count.

    Args:
        model: with any layers.
        backbone: of the model.
        size: of the step.
        training: optimiser, precision and compilation.
    """
    states = _STATES[training.optimizer]
    additions = Counter({name: _weights(layer, states) for name, layer in _additions(backbone).items()})
    if training.compile:
        peak = sum(value.nbytes for value in model.parameters() if value.requires_grad)
    else:
        peak, by_layer = _measure(model, backbone, size)
        width = 0.5 if training.precision == "bf16-mixed" and size.training else 1.0
        peak = int(width * peak)
        additions.update({name: int(width * by_layer[name]) for name in additions})
    return StepMemory(total=_weights(model, states) + peak, additions=additions)


def _refusal(
    similarity: SimilarityConfig, backbone: nn.Module, size: StepSize, found: StepMemory, there: str
) -> ConfigError:
    """Write the sentence about a step that does not fit."""
    name, most = found.additions.most_common(1)[0]
    layer = _additions(backbone)[name]
    batch = "training.batch_size" if size.training else "training.evaluation_batch_size"
    if isinstance(layer, GlobalSimilarity):
        setting = f"backbone.similarity.across_map is {similarity.across_map!r}"
        remedy = f"leave it out, or lower data.image_size or {batch}"
    else:
        kernel, second = layer.window.kernel, similarity.second_kernel
        setting = (
            f"backbone.similarity.hidden is {similarity.hidden_channels}, in predictors with kernels of "
            f"{kernel}x{kernel} and {second}x{second}"
        )
        remedy = f"lower hidden, backbone.width or {batch}"
    return ConfigError(
        f"{setting}, but {size} takes at least {_written(found.total)}, {_written(found.additions.total())} of it for "
        f"them ({_written(most)} in layer {name}), and {there}; {remedy}."
    )


def _weights(module: nn.Module, states: int) -> int:
    """Count the bytes of parameters, buffers and the state of the optimiser."""
    trained = sum(value.nbytes for value in module.parameters() if value.requires_grad)
    return sum(value.nbytes for value in (*module.parameters(), *module.buffers())) + states * trained


class _Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensors that are alive, and the most at any time; views and changes in place add nothing.

    Args:
        stored: what was there before, which does not count.
    """

    def __init__(self, stored: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known = {value.untyped_storage()._cdata for value in stored}
        self.alive: Counter[str] = Counter()
        self.inside = [""]
        self.at_peak: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count what an operation has made."""
        made = func(*args, **(kwargs or {}))
        for value in tree_leaves(made):
            if isinstance(value, Tensor) and value.untyped_storage()._cdata not in self._known:
                self._add(value.untyped_storage(), self.inside[-1])
        return made

    def _add(self, storage: torch.UntypedStorage, name: str) -> None:
        key, count = storage._cdata, storage.nbytes()

        def gone() -> None:
            self._known.discard(key)
            self.alive[name] -= count

        self._known.add(key)
        self.alive[name] += count
        if self.alive.total() > self.at_peak.total():
            self.at_peak = self.alive.copy()
        weakref.finalize(storage, gone)


def _measure(model: nn.Module, backbone: nn.Module, size: StepSize) -> tuple[int, Counter[str]]:
    """Measure the peak of a pass forward, and back where gradients are computed; and what layers hold in between."""
    meter = _Meter((*model.parameters(), *model.buffers()))

    def entering(name: str) -> Callable[..., None]:
        return lambda *_: meter.inside.append(name)

    def leaving(*_: Any) -> None:
        meter.inside.pop()

    was_training = model.training
    with ExitStack() as ends:
        for name, layer in _additions(backbone).items():
            ends.callback(layer.register_forward_pre_hook(entering(name)).remove)
            ends.callback(layer.register_forward_hook(leaving).remove)
        ends.enter_context(meter)
        ends.enter_context(torch.set_grad_enabled(size.training))
        model.train(size.training)  # which leaves frozen layers in evaluation
        features = backbone(torch.empty(size.rows, *size.shape, device=next(backbone.parameters()).device))
        held = (meter.alive if size.training else meter.at_peak).copy()
        if features.requires_grad:
            torch.autograd.backward(features.sum())
    model.zero_grad(set_to_none=True)
    model.train(was_training)
    return meter.at_peak.total(), held


def _additions(backbone: nn.Module) -> dict[str, Addition]:
    """Find the layers whose size is a setting of similarity, by name; a shared predictor counts where it is owned."""
    found: dict[str, Addition] = {}
    for name, layer in backbone.named_modules():
        if isinstance(layer, (SimilarityPredictor, SharedPredictor, GlobalSimilarity)) and not name.endswith(".own"):
            found[name.removesuffix(".predictor")] = layer
    return found


def _written(count: int) -> str:
    return f"{count / 1e9:.3g} GB" if count < 1e12 else f"{count / 1e9:,.0f} GB"
