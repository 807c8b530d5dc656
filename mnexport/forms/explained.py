"""Explained forms: a classifier or regressor that gives its neighbors and the answer without adaptation, too.

Shapes: B queries, S entries, C classes, K neighbors. attention ω [B, S]; outputs: indices and labels int64 [B, K],
weights float32 [B, K], unadapted probabilities [B, C]; of a regressor values [B, K] and the unadapted value [B, 1], of
T targets values [B, K, T] and unadapted value [B, T].
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from mnexport.errors import UsageError
from mnexport.forms.base import DeployedClassifier
from mnexport.forms.heads import static_head
from mnexport.forms.regression import DeployedRegressor, PlainEstimator, unscaled
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor


class HasAttention(Protocol):
    """Interface of a static head that looks neighbors up."""

    def weights(self, features: Tensor) -> Tensor:
        """Compute the attention [B, S] of features [B, d]."""


class ExplainedClassifier(nn.Module):
    """Classifier whose outputs are logits, probabilities, and the explanation.

    Args:
        deployed: the classifier; its head has attention.
        model: trained.
        neighbors: K.
    """

    labels: Tensor  # the likeliest class of each entry, int64 [S]

    def __init__(self, deployed: DeployedClassifier, model: MetaNeighborhoods, neighbors: int) -> None:
        super().__init__()
        check_neighbors(neighbors, len(model.dictionary.keys))
        self.deployed = deployed
        self.plain = static_head(model.head)
        self.neighbors = neighbors
        self.register_buffer("labels", model.dictionary.values().argmax(dim=-1))
        self.eval().requires_grad_(False)

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Classify and explain: logits, probabilities, indices, weights, labels, unadapted probabilities."""
        features = self.deployed.backbone(self.deployed.preprocessing(inputs))
        logits: Tensor = self.deployed.classifier(features)
        head: HasAttention = self.deployed.classifier  # type: ignore[assignment]
        weights, indices = torch.topk(head.weights(features), self.neighbors, dim=-1)
        unadapted = torch.softmax(self.plain(features), dim=-1)
        return logits, torch.softmax(logits, dim=-1), indices, weights, self.labels[indices], unadapted


class ExplainedRegressor(nn.Module):
    """Regressor whose outputs are the value and the explanation, in the targets' own units.

    Args:
        deployed: the regressor; its estimator has attention.
        model: trained.
        neighbors: K.
    """

    values: Tensor  # of each entry, in the targets' own units [S] or [S, T]

    def __init__(self, deployed: DeployedRegressor, model: MetaNeighborhoodsRegressor, neighbors: int) -> None:
        super().__init__()
        check_neighbors(neighbors, len(model.keys))
        self.deployed = deployed
        self.plain = PlainEstimator(model.network)
        self.neighbors = neighbors
        self.register_buffer("values", unscaled(model.values.detach(), deployed.standardization.config))
        self.eval().requires_grad_(False)

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Estimate and explain: value, indices, weights, values of the neighbors, unadapted value."""
        standardised = self.deployed.standardization(rows)
        estimator: HasAttention = self.deployed.estimator  # type: ignore[assignment]
        weights, indices = torch.topk(estimator.weights(standardised), self.neighbors, dim=-1)
        answer, plain = self.deployed.estimator(standardised), self.plain(standardised)
        value, unadapted = (self.deployed.in_own_units(estimate) for estimate in (answer, plain))
        return value, indices, weights, self.values[indices], unadapted


def check_neighbors(neighbors: int, entries: int) -> None:
    """Refuse a number of neighbors that the dictionary or TensorRT does not have.

    Raises:
        UsageError: the number is above the entries of the dictionary, or above what TensorRT sorts.
    """
    if not 1 <= neighbors <= min(entries, MOST_NEIGHBORS):
        raise UsageError(
            f"--explain is {neighbors}; it must be from 1 to {min(entries, MOST_NEIGHBORS)}: the dictionary has "
            f"{entries} entries."
        )


# TensorRT's TopK takes fewer than 3,840.
MOST_NEIGHBORS = 1000
