"""No step of training builds a tensor of B·S·C·d elements, or one of B·S times the parameters of the classifier.

Shapes: B 8, S 40, C 5, d 48.
"""

from typing import Any

import pytest
import torch
from torch import nn

from mntrain.layers.heads import build_head
from mntrain.models.base import Batch
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

BATCH, ENTRIES, CLASSES, FEATURES = 8, 40, 5, 48


def largest_of_a_step(largest: Any, **settings: Any) -> int:
    torch.manual_seed(0)
    config = MetaNeighborhoodsConfig(entries=ENTRIES, **settings)
    dictionary = Dictionary(config, features=FEATURES, classes=CLASSES)
    head = build_head(config.head, FEATURES, CLASSES, 10.0)
    model = MetaNeighborhoods(nn.Identity(), (head, None), dictionary, config)
    batch = Batch(torch.randn(BATCH, FEATURES), torch.arange(BATCH) % CLASSES)
    with largest as seen:
        loss, _ = model.loss(batch)
        loss.backward()
    return seen.elements


@pytest.mark.parametrize("dropout_mode", ["per_sample", "per_batch"])
@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "distance"])
@pytest.mark.parametrize("head", ["cosine", "dot"])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("form", ["scalar", "per_feature", "per_parameter"])
def test_the_largest_tensor_of_a_training_step(
    largest: Any, dropout_mode: str, similarity: str, head: str, steps: int, form: str
) -> None:
    found = largest_of_a_step(
        largest, dropout_mode=dropout_mode, similarity=similarity, head=head, steps=steps, step_size_form=form
    )
    assert found <= BATCH * CLASSES * max(ENTRIES, FEATURES + 1)


def test_the_measure_sees_a_large_tensor(largest: Any) -> None:
    with largest as seen:
        x = torch.randn(BATCH, ENTRIES, 1, 1, requires_grad=True) * torch.randn(CLASSES, FEATURES)
        x.sum().backward()
    assert seen.elements == BATCH * ENTRIES * CLASSES * FEATURES
