"""Choice of the network that computes coefficients, in its cheapest exact form.

Shapes: F few classes, D inputs, K neighbors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mntrain.errors import ConfigError
from mntrain.heads.alpha.clamp import CoefficientBounds, coefficient_bounds, inside_start
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.later_network import LaterNetwork
from mntrain.heads.alpha.layers import ModuleShape
from mntrain.heads.alpha.straight_modules import StraightModules
from mntrain.heads.alpha.tracked_modules import TrackedModules

_MOST_BYTES = 8 * 2**30
_COPIES = 4  # weights, gradients and the two moments of AdamW


class CoefficientNetwork(nn.Module):
    """Computes the coefficients of all compositions, [F, K + 1].

    Args:
        inputs: classifiers of each composition, [F, D].
        config: resolved settings, with ``hidden``.
        generator: source of draws.

    Raises:
        ConfigError: AdamW on modules of each class that no usual memory holds.
    """

    def __init__(self, inputs: Tensor, config: AlphaConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.bounds: CoefficientBounds | None = None
        if config.network == "later":
            self.modules_: nn.Module = LaterNetwork(inputs, config.hidden, config.neighbors, generator)
            return
        shape = module_shape(config, len(inputs), inputs.shape[1])
        check_memory(config, shape, inputs.element_size())
        start = inside_start(config, inputs.dtype) if config.start == "inside" else None
        self.bounds = coefficient_bounds(config, inputs.dtype)
        if config.optimizer == "sgd":
            self.modules_ = TrackedModules(inputs, shape, start, generator)
        else:
            self.modules_ = StraightModules(inputs, shape, start, generator)

    def forward(self) -> Tensor:
        """Compute the coefficients, clamped."""
        raw: Tensor = self.modules_()
        return raw if self.bounds is None else self.bounds.clamp(raw)

    def share_at_bounds(self, coefficients: Tensor) -> float:
        """Return the share of coefficients on a bound; 0 without bounds."""
        return 0.0 if self.bounds is None else self.bounds.share_at_bounds(coefficients)


def module_shape(config: AlphaConfig, classes: int, inputs: int) -> ModuleShape:
    """Return the sizes of modules for F ``classes`` and D ``inputs``; the settings are resolved, with ``hidden``."""
    return ModuleShape(
        classes=classes,
        inputs=inputs,
        hidden=config.hidden,
        outputs=config.neighbors + 1,
        shared=config.network == "shared",
    )


def check_memory(config: AlphaConfig, shape: ModuleShape, width: int) -> None:
    """Check that modules with all their weights, as AdamW needs them, fit into memory.

    Args:
        config: resolved settings.
        shape: sizes.
        width: bytes of a number.

    Raises:
        ConfigError: they need more than 8 GiB.
    """
    needed = shape.modules * shape.hidden * (shape.inputs + 1) * width * _COPIES
    if config.optimizer == "adamw" and needed > _MOST_BYTES:
        raise ConfigError(
            f"alpha.optimizer adamw would keep {needed / 2**30:.0f} GiB for {shape.modules} modules of "
            f"{shape.inputs} inputs and {shape.hidden} hidden units; set alpha.optimizer to sgd, alpha.network to "
            "shared, or lower alpha.reduced or alpha.hidden."
        )
