"""Frozen parts of a network: no gradients, and normalisation by the statistics that it was trained with."""

from torch import nn


def freeze(module: nn.Module, *, but_additions: bool = False) -> None:
    """Freeze a module: its parameters get no gradients, and :func:`rest` keeps its layers in evaluation.

    Args:
        module: of a model.
        but_additions: leave what layers add to an ordinary network: the parameters and layers that they name in
            ``additions``, such as similarities and dictionaries of iFiLM.
    """
    module.frozen = True  # type: ignore[assignment]
    kept = set(getattr(module, "additions", ())) if but_additions else set()
    for name, parameter in module.named_parameters(recurse=False):
        if name not in kept:
            parameter.requires_grad_(False)
    for name, child in module.named_children():
        if name not in kept:
            freeze(child, but_additions=but_additions)


def rest(module: nn.Module) -> None:
    """Put frozen layers into evaluation, after a call of ``train``."""
    for layer in module.modules():
        if getattr(layer, "frozen", False):
            layer.training = False
