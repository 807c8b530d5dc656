"""Dimensions that a model file gives one name: in ONNX they have one size in every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mnserve.codec.input_rules import SharedAxis
from mnserve.engines.base import TensorSpec

_MACHINE_MADE: Final = ("unk__", "dynamicdimension", "p2o.dynamicdimension", "dim_param_", "none", "?")
"""Beginnings of names that converters make up for every dimension anew. Two of them may mean the same."""


def means_something(axis: str) -> bool:
    """Returns True for a name that somebody chose; others say nothing about sizes."""
    text = axis.lower()
    made_up = text.startswith(_MACHINE_MADE) or "_dim_" in text or "_dynamic_axes_" in text
    return bool(text) and not text.isdigit() and not made_up


def shared_axes(inputs: Sequence[TensorSpec], *, batched: bool) -> tuple[SharedAxis, ...]:
    """Lists the names that stand at several dimensions of the inputs.

    The first dimensions of a model with batches are left out: they are its rows, and are checked as such. ONNX Runtime
    itself compares no sizes of one name, so that some models answer a wrong request without a word.

    Args:
        inputs: Inputs of the engine, as callers see them.
        batched: The model has a batch dimension.
    """
    places: dict[str, list[tuple[str, int]]] = {}
    for spec in inputs:
        first = 1 if batched and not spec.optional else 0
        for place, name in enumerate(spec.axes[first:], start=first):
            if means_something(name):
                places.setdefault(name, []).append((spec.name, place))
    return tuple(SharedAxis(name=name, places=tuple(found)) for name, found in places.items() if len(found) > 1)
