"""Moving average of the weights of a run, which is evaluated and kept in their place.

Shapes: any, those of the model's weights.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mntrain.models.base import Model
from mntrain.training.checkpoint import TrainingState

_PREFIX = "module."


class WeightAverage:
    """Exponential moving average of a model's parameters and statistics: average ← d · average + (1 - d) · weights.

    The n-th step takes d = min(decay, (1 + n) / (10 + n)), so that the weights of the first steps are soon forgotten.
    Floating-point buffers, such as the statistics of batch normalisation, are averaged like parameters: they belong to
    the weights that they were measured with. Counters and masks are those of the model.

    Args:
        model: whose weights are averaged; it is copied.
        decay: above 0 and below 1.
    """

    def __init__(self, model: Model, decay: float) -> None:
        self._averaged = AveragedModel(model, multi_avg_fn=_averaging(decay), use_buffers=True)

    @property
    def model(self) -> Model:
        """Copy of the model that holds the averages."""
        averaged = self._averaged.module
        assert isinstance(averaged, Model)
        return averaged

    def to(self, device: torch.device) -> None:
        """Move the averages to the device of the model."""
        self._averaged.to(device)

    def update(self, model: Model) -> None:
        """Take in the weights after a step; the first step after a start is taken over as it is."""
        self._averaged.update_parameters(model)

    def restart(self) -> None:
        """Forget all steps so far, where weights jump: the next one is taken over as it is."""
        self._averaged.n_averaged.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Averages and number of steps, for a checkpoint."""
        return self._averaged.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the averages of a checkpoint.

        Raises:
            RuntimeError: they are not those of this model.
        """
        self._averaged.load_state_dict(state)


def kept_weights(state: TrainingState) -> dict[str, Any]:
    """Weights of a checkpoint that become the artifact: the averages where there are any, else the model's own."""
    if not state.average:
        return state.model
    return {name.removeprefix(_PREFIX): value for name, value in state.average.items() if name.startswith(_PREFIX)}


def _averaging(decay: float) -> Callable[[Any, Any, Tensor | int], None]:
    def update(averages: Any, weights: Any, steps: Tensor | int) -> None:
        if averages[0].is_floating_point():
            count = int(steps)
            average_all = get_ema_multi_avg_fn(min(decay, (1 + count) / (10 + count)))  # type: ignore[no-untyped-call]
            average_all(averages, weights, steps)
            return
        for average, weight in zip(averages, weights, strict=True):
            average.copy_(weight)

    return update
