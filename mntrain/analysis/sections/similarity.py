"""Section of neural similarity: matrices, kernel shapes, and what is predicted for real images."""

from typing import Any

import numpy as np
import torch
from torch import nn

from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Figure, Section, Table
from mntrain.analysis.sections.similarity_figures import (
    across_figure,
    deviations_figure,
    maps_figure,
    matrices_figure,
    shapes_figure,
)
from mntrain.analysis.similarity import LearnedMixing, LearnedSimilarities, LearnedSimilarity, learned_similarities
from mntrain.data.images import ImageArray

_LOOKED_AT = 32


def similarity_section(report_input: ReportInput, test: Observed) -> Section | None:
    """Show what similarities of the backbone have learned; None where it has none."""
    if test.images is None:
        return None
    # From all over the split, which may be sorted by class; the images that are shown come first.
    chosen = np.unique(np.linspace(0, len(test.images) - 1, _LOOKED_AT).astype(np.int64))
    shown = chosen[[0, len(chosen) // 2, -1]]
    chosen = np.concatenate([shown, np.setdiff1d(chosen, shown)])
    backbone = getattr(report_input.artifact.model, "backbone", None)
    network = backbone if isinstance(backbone, nn.Module) else report_input.artifact.model
    inputs = report_input.artifact.preprocessing(torch.from_numpy(test.examples.inputs[chosen]))
    found = learned_similarities(network, inputs, len(shown))
    if found is None:
        return None
    return Section(
        anchor="similarity",
        title="Similarity",
        text=(_text(found, len(chosen)),),
        facts=_facts(found),
        figures=_figures(found, test.images[shown]),
        table=_table(found),
        numbers={
            "images": len(chosen),
            "layers": {layer.name: _layer_numbers(layer) for layer in found.layers},
            "across": {layer.name: _mixing_numbers(layer) for layer in found.across},
        },
    )


def _text(found: LearnedSimilarities, images: int) -> str:
    text = ""
    if found.layers:
        text += "Patch and filter are compared by wᵀMx: M = I is an ordinary convolution. "
    if any(layer.shape is not None for layer in found.layers):
        text += "A tap that a kernel shape has dropped is 0 in M. "
    if found.across:
        text += "Across maps every position adds to itself what it takes of others, M = I + γ·similarity. "
    text += "|M − I| is the root of the sum of squares"
    if any(layer.maps is not None for layer in found.layers) or any(one.mode != "static" for one in found.across):
        text += f"; what is predicted from the input is averaged over {images} test images and all positions"
    return f"{text}."


def _facts(found: LearnedSimilarities) -> tuple[tuple[str, str], ...]:
    facts = []
    if found.layers:
        facts.append(("convolutions with similarity", f"{len(found.layers)} {_kind(found.layers[0])}"))
        distances = [layer.distance for layer in found.layers]
        facts.append(("|M − I|, mean over layers", f"{sum(distances) / len(distances):.4g}"))
    shaped = [layer for layer in found.layers if layer.shape is not None]
    if shaped:
        taps = sum(layer.kernel**2 for layer in shaped)
        facts.append(("taps that stay", f"{sum(layer.taps for layer in shaped)} of {taps}"))
    if found.across:
        facts.append(("similarity across maps", f"{len(found.across)} {found.across[0].mode}"))
    return tuple(facts)


def _figures(found: LearnedSimilarities, images: ImageArray) -> tuple[Figure, ...]:
    figures = []
    if found.layers:
        figures.append(matrices_figure(found.layers))
    if any(layer.shape is not None for layer in found.layers):
        figures.append(shapes_figure(found.layers))
    if any(layer.maps is not None for layer in found.layers):
        figures += [deviations_figure(found.layers), maps_figure(found.layers, images)]
    if found.across:
        figures.append(across_figure(found.across, images))
    return tuple(figures)


def _table(found: LearnedSimilarities) -> Table:
    """List all layers; columns that say nothing are left out."""
    layers = [
        (layer.name, _kind(layer), f"{layer.distance:.4g}", _deviation(layer), _taps(layer), "")
        for layer in found.layers
    ]
    across = [
        (layer.name, f"{layer.mode} across maps", f"{layer.distance:.4g}", "", "", _gate(layer))
        for layer in found.across
    ]
    headings = ("layer", "similarity", "|M − I|", "mean deviation of M", "taps that stay", "gate γ")
    columns = [column for column in zip(headings, *layers, *across, strict=True) if any(column[1:])]
    return Table(
        headings=tuple(column[0] for column in columns),
        rows=tuple(zip(*(column[1:] for column in columns), strict=True)),
    )


def _kind(layer: LearnedSimilarity) -> str:
    return f"{'static' if layer.maps is None else 'dynamic'} {'diagonal' if layer.diagonal else 'unconstrained'}"


def _deviation(layer: LearnedSimilarity) -> str:
    return "" if layer.deviation is None else f"{float(layer.deviation.mean()):.4g}"


def _taps(layer: LearnedSimilarity) -> str:
    return "" if layer.shape is None else f"{layer.taps} of {layer.kernel**2}"


def _gate(layer: LearnedMixing) -> str:
    return "" if layer.gate is None else f"{layer.gate:.4g}"


def _layer_numbers(layer: LearnedSimilarity) -> dict[str, Any]:
    numbers: dict[str, Any] = {"similarity": _kind(layer), "distance": layer.distance, "mean": layer.mean.tolist()}
    if layer.deviation is not None:
        numbers["deviation"] = layer.deviation.tolist()
    if layer.shape is not None:
        numbers["shape"] = [int(tap) for tap in layer.shape]
    return numbers | {"taps": layer.taps}


def _mixing_numbers(layer: LearnedMixing) -> dict[str, Any]:
    return {"similarity": layer.mode, "distance": layer.distance, "gate": layer.gate}
