"""Fixtures: small classifiers whose features are their inputs, and features near three directions."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mntrain.models.families import FAMILIES
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

ENTRIES, CLASSES, FEATURES = 60, 4, 12


class _Identity(torch.nn.Module):
    """Backbone whose features are its inputs."""

    features = FEATURES

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


def _queries(count: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(3, FEATURES, generator=torch.Generator().manual_seed(7))
    return centres[torch.arange(count) % 3] + 0.1 * torch.randn(count, FEATURES, generator=generator)


@pytest.fixture(scope="session")
def queries() -> Callable[..., Tensor]:
    """Make features [count, 12] near three directions, so that a low rank is enough: ``queries(count, seed)``."""
    return _queries


@pytest.fixture(scope="session")
def build() -> Callable[..., MetaNeighborhoods]:
    """Build an untrained classifier of 4 classes with keys where queries are: ``build(steps=3)``."""

    def model_of(*, entries: int = ENTRIES, **settings: Any) -> MetaNeighborhoods:
        torch.manual_seed(0)
        entry = FAMILIES["meta_neighborhoods"]
        config = entry.config(entries=entries, step_size=0.5, **settings)
        model = entry.build(config, lambda: _Identity(), CLASSES)
        assert isinstance(model, MetaNeighborhoods)
        with torch.no_grad():
            model.dictionary.keys.copy_(_queries(entries, seed=3))
            if settings.get("step_size_form", "scalar") != "scalar":
                model.raw_step_size.uniform_(0.1, 0.9)
        return model.eval().requires_grad_(False)

    return model_of
