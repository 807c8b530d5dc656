"""The variants that the contract tests run over: every pair of choices stands together in at least one of them."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch

from mntrain.backbones.config import BACKBONES, CONVOLUTIONAL, BackboneConfig, build_backbone
from mntrain.models.base import Model
from mntrain.models.families import FAMILIES

CLASSES, CHANNELS, SIZE = 4, 3, 16
# What may be chosen, family by family; a family that is not named here runs with its defaults.
CHOICES: dict[str, dict[str, list[Any]]] = {
    "vanilla": {"head": ["cosine", "dot"]},
    "meta_neighborhoods": {
        "head": ["cosine", "dot"],
        "similarity": ["cosine", "euclidean"],
        "steps": [1, 3],
        "step_size_form": ["scalar", "per_feature", "per_parameter"],
        "dropout_mode": ["per_sample", "per_batch"],
    },
}
FIXED = {"meta_neighborhoods": {"entries": 30, "step_size": 0.2}}


@dataclass(frozen=True)
class Variant:
    """A family with its settings on a backbone."""

    family: str
    backbone: str
    ifilm: bool
    settings: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        words = [self.family, self.backbone, *(["ifilm"] if self.ifilm else []), *(str(v) for _, v in self.settings)]
        return "-".join(words)

    def build(self) -> Model:
        """An untrained model, the same every time."""
        torch.manual_seed(0)
        fields: dict[str, Any] = {} if self.backbone == "identity" else {"width": 0.25}
        fields |= {"ifilm": True, "ifilm_entries": 3} if self.ifilm else {}
        config = BackboneConfig(name=self.backbone, **fields)
        entry = FAMILIES[self.family]
        settings = {**FIXED.get(self.family, {}), **dict(self.settings)}
        return entry.build(entry.config(**settings), partial(build_backbone, config, (CHANNELS, SIZE, SIZE)), CLASSES)


def pairwise(axes: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Few combinations in which every two values of different axes meet: the greedy choice of the most new pairs."""
    candidates = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]

    def pairs(row: dict[str, Any]) -> set[Any]:
        return set(itertools.combinations(sorted((key, str(value)) for key, value in row.items()), 2))

    missing = set().union(*(pairs(row) for row in candidates))
    chosen = []
    while missing:
        best = max(candidates, key=lambda row: len(pairs(row) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


def variants() -> list[Variant]:
    """All families."""
    found = []
    for family in sorted(FAMILIES):
        choices = CHOICES.get(family, {})
        for row in pairwise({"backbone": sorted(BACKBONES), "ifilm": [False, True], **choices}):
            settings = tuple((key, row[key]) for key in choices)
            # The others have no layers to adapt, and refuse it.
            ifilm = row["ifilm"] and row["backbone"] in CONVOLUTIONAL
            found.append(Variant(family, row["backbone"], ifilm, settings))
    return list(dict.fromkeys(found))


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
