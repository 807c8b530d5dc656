"""Variants of the contract tests: every pair of choices stands together in at least one of them."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch

from mntrain.backbones.config import BACKBONES, BackboneConfig, build_backbone
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.models.base import Model
from mntrain.models.families import FAMILIES


@pytest.fixture(scope="session", autouse=True)
def _one_operator_table(one_operator_table: None) -> None:
    """See ``one_operator_table``."""


CLASSES, IMAGE = 4, (3, 16, 16)
# What may be chosen, family by family; a family that is not named here runs with its defaults.
CHOICES: dict[str, dict[str, list[Any]]] = {
    "vanilla": {"head": ["cosine", "dot"], "extra_parameters": [0, 1000]},
    "meta_neighborhoods": {
        "head": ["cosine", "dot"],
        "similarity": ["cosine", "euclidean", "distance"],
        "steps": [1, 3],
        "step_size_form": ["scalar", "per_feature", "per_parameter"],
        "dropout_mode": ["per_sample", "per_batch"],
        "values": ["learned", "fixed"],
        "learn_step_size": [True, False],
        "auxiliary": [0.0, 0.5],
    },
}
SIMILARITIES: dict[str, dict[str, Any]] = {
    "": {},
    "static": {"mode": "static", "kernel_shape": True, "shape_keep": 7},
    "unconstrained": {"mode": "static", "kind": "unconstrained"},
    "dynamic": {"mode": "dynamic", "hidden": 6, "orthogonality": 1e-3},
    "dynamic-unconstrained": {"mode": "dynamic", "kind": "unconstrained", "hidden": 5, "kernel_shape": True},
    # Plain predictors are no part of it: their similarities have no bound, and neither have random deep networks.
    "shared": {"mode": "dynamic", "hidden": 6, "shared": True, "second_kernel": 1},
    "sphere": {"mode": "sphere", "normalise": "both", "measure": "sigmoid"},
}
LEFT_OUT = ("cnn10",)
"""Needs images of 32 pixels; its layers are those of cnn9."""
SIMILAR = ("cnn9", "convnet4", "resnet29")
"""Backbones beside cnn4 that similarities are tested on."""
FIXED = {"meta_neighborhoods": {"entries": 30, "step_size": 0.2}}


@dataclass(frozen=True)
class Variant:
    """A family with its settings on a backbone."""

    family: str
    backbone: str
    ifilm: bool
    similarity: str
    settings: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        chosen = (key if value is True else str(value) for key, value in self.settings if value not in (False, 0))
        words = [self.family, self.backbone, *(["ifilm"] if self.ifilm else []), self.similarity, *chosen]
        return "-".join(filter(None, words))

    def build(self) -> Model:
        """An untrained model, the same every time."""
        torch.manual_seed(0)
        similarity = SimilarityConfig(**SIMILARITIES[self.similarity])
        config = BackboneConfig(
            name=self.backbone, width=0.25, ifilm=self.ifilm, ifilm_entries=3, similarity=similarity
        )
        entry = FAMILIES[self.family]
        settings = {**FIXED.get(self.family, {}), **dict(self.settings)}
        return entry.build(entry.config(**settings), partial(build_backbone, config, IMAGE), CLASSES)


def possible(row: dict[str, Any]) -> bool:
    """iFiLM needs a normalisation layer, similarity a convolution; deep networks have one of the two at most."""
    if not row["ifilm"] and not row["convolution"]:
        return True
    small = row["backbone"] == "cnn4" or (not row["ifilm"] and row["backbone"] in SIMILAR)
    return BackboneConfig(name=row["backbone"]).adaptable and (small or not row["convolution"])


def pairwise(axes: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Few combinations in which every two values of different axes meet: the greedy choice of the most new pairs."""
    rows = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    candidates = [row for row in rows if possible(row)]

    def pairs(row: dict[str, Any]) -> set[Any]:
        return set(itertools.combinations(sorted((key, str(value)) for key, value in row.items()), 2))

    covered = [(row, pairs(row)) for row in candidates]
    missing = set().union(*(found for _, found in covered))
    chosen = []
    while missing:
        best, found = max(covered, key=lambda candidate: len(candidate[1] & missing))
        chosen.append(best)
        missing -= found
    return chosen


def variants() -> list[Variant]:
    """All families; of those that adapt their head, similarities meet the first of each choice alone."""
    found = []
    backbones = [name for name in sorted(BACKBONES) if name not in LEFT_OUT]
    for family in sorted(FAMILIES):
        choices = CHOICES.get(family, {})
        similarities = list(SIMILARITIES) if family == "vanilla" else [""]
        axes = {"backbone": backbones, "ifilm": [False, True], "convolution": similarities, **choices}
        rows = pairwise(axes)
        if family != "vanilla":
            first = {key: values[0] for key, values in choices.items()}
            rows += [
                {"backbone": "cnn4", "ifilm": False, "convolution": name, **first} for name in SIMILARITIES if name
            ]
        for row in rows:
            settings = tuple((key, row[key]) for key in choices)
            found.append(Variant(family, row["backbone"], row["ifilm"], row["convolution"], settings))
    return found


@pytest.fixture(params=variants(), ids=str)
def variant(request: pytest.FixtureRequest) -> Variant:
    """One variant."""
    assert isinstance(request.param, Variant)
    return request.param


@pytest.fixture
def model(variant: Variant) -> Model:
    """An untrained model of the variant."""
    return variant.build()


@pytest.fixture
def build_variant() -> Callable[[Variant], Model]:
    """Builds a model of a variant once more."""
    return Variant.build
