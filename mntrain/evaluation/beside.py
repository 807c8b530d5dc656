"""Methods of scikit-learn on the training data of an artifact, measured on the same examples as its model.

Shapes: N examples, F inputs of a row, d features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mntrain.artifact import Artifact, TableArtifact
from mntrain.baselines.boosting import boost
from mntrain.baselines.nearest import nearest
from mntrain.baselines.rows import BaselineAnswers, KnownRows
from mntrain.data.images import ImageData, ImageSet
from mntrain.data.tables import TableData, TableSet
from mntrain.layers.attention import unit
from mntrain.layers.heads import CosineHead
from mntrain.models.base import Model, Regressor
from mntrain.models.neighbors import NeighborClassifier

_BATCH = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """A method of scikit-learn with its answers.

    Args:
        name: knn or gradient_boosting.
        title: for tables.
        inputs: what it looks at, in words.
        found: its answers; values are standardised.
    """

    name: str
    title: str
    inputs: str
    found: BaselineAnswers


def fit_baselines(
    artifact: Artifact, data: ImageData | TableData, examples: ImageSet | TableSet
) -> tuple[Baseline, ...]:
    """Fit kNN and, for rows, gradient boosting on the training split of a run, and answer ``examples``.

    kNN looks at the features of the artifact's model, or at the standardised rows of a regressor. Boosting looks at
    the columns as they are. The validation split chooses the number of neighbors and of rounds.
    """

    def known(part: ImageSet | TableSet, inputs: NDArray[np.float32]) -> KnownRows:
        return KnownRows(inputs=inputs, targets=_targets(artifact, part))

    look, words = _view(artifact)
    near = nearest(known(data.train, look(data.train)), known(data.validation, look(data.validation)), look(examples))
    found = [Baseline(name="knn", title="kNN", inputs=words, found=near)]
    if isinstance(data, TableData) and isinstance(examples, TableSet):
        boosted = boost(
            known(data.train, data.train.inputs),
            known(data.validation, data.validation.inputs),
            examples.inputs,
            categories=len(data.categories),
        )
        found.append(
            Baseline(name="gradient_boosting", title="gradient boosting", inputs="columns as they are", found=boosted)
        )
    return tuple(found)


def _targets(artifact: Artifact, part: ImageSet | TableSet) -> NDArray[Any]:
    if isinstance(artifact, TableArtifact) and isinstance(part, TableSet):
        return artifact.config.standardization.targets(part).targets
    return part.targets


def _view(artifact: Artifact) -> tuple[Callable[[ImageSet | TableSet], NDArray[np.float32]], str]:
    """Function of examples to what kNN looks at, float32 [N, d], and its name in words."""
    model = artifact.model
    embed, words = _embedding(model)

    @torch.inference_mode()
    def look(examples: ImageSet | TableSet) -> NDArray[np.float32]:
        batches = [
            embed(artifact.preprocessing(torch.from_numpy(examples.inputs[start : start + _BATCH])))
            for start in range(0, len(examples), _BATCH)
        ]
        features: NDArray[np.float32] = torch.cat(batches).float().numpy()
        return features

    return look, words


def _embedding(model: Model) -> tuple[Callable[[Tensor], Tensor], str]:
    if isinstance(model, Regressor):
        return lambda rows: rows, "standardised rows"
    if isinstance(model, NeighborClassifier):
        embed, cosine = model.queries, model.similarity == "cosine"
    else:
        backbone, head = getattr(model, "backbone", None), getattr(model, "head", None)
        assert isinstance(backbone, nn.Module)
        embed, cosine = backbone, isinstance(head, CosineHead)
    if cosine:
        # Euclidean distances of unit vectors order as cosines do.
        return lambda inputs: unit(embed(inputs)), "the model's features, by cosine"
    return embed, "the model's features"
