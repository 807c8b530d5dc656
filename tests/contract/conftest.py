"""Variants of the contract tests: every pair of choices stands together in at least one of them."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch

from mntrain.backbones.config import BACKBONES, BackboneConfig, build_backbone
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
FIXED = {"meta_neighborhoods": {"entries": 30, "step_size": 0.2}}


@dataclass(frozen=True)
class Variant:
    """A family with its settings on a backbone."""

    family: str
    backbone: str
    ifilm: bool
    settings: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        chosen = (key if value is True else str(value) for key, value in self.settings if value not in (False, 0))
        words = [self.family, self.backbone, *(["ifilm"] if self.ifilm else []), *chosen]
        return "-".join(words)

    def build(self) -> Model:
        """An untrained model, the same every time."""
        torch.manual_seed(0)
        config = BackboneConfig(name=self.backbone, width=0.25, ifilm=self.ifilm, ifilm_entries=3)
        entry = FAMILIES[self.family]
        settings = {**FIXED.get(self.family, {}), **dict(self.settings)}
        return entry.build(entry.config(**settings), partial(build_backbone, config, IMAGE), CLASSES)


def possible(row: dict[str, Any]) -> bool:
    """iFiLM needs a normalisation layer."""
    return not row["ifilm"] or BackboneConfig(name=row["backbone"]).adaptable


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
    """All families."""
    found = []
    for family in sorted(FAMILIES):
        choices = CHOICES.get(family, {})
        for row in pairwise({"backbone": sorted(BACKBONES), "ifilm": [False, True], **choices}):
            settings = tuple((key, row[key]) for key in choices)
            found.append(Variant(family, row["backbone"], row["ifilm"], settings))
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
