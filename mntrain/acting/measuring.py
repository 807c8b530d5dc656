"""Measurement of what adaptation does, on samples of test and training examples.

Shapes: N test examples, M training examples, S entries, d features. queries z [N, d] and [M, d], labels [M].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from mntrain.acting.effect import effect_on, value_share
from mntrain.acting.faithfulness import LEFT_OUT, faithfulness
from mntrain.acting.labels import answer_agreement, entry_consistency
from mntrain.acting.record import AdaptationRecord, NamedExamples
from mntrain.data.examples import Examples, IndexArray
from mntrain.models.base import Model
from mntrain.models.nearest import NearestSoFar
from mntrain.models.neighbors import HasNeighbors, NeighborClassifier
from mntrain.models.queries import model_queries, query_batches
from mntrain.training.evaluation import Evaluation

_TEST_EXAMPLES = 256
_TRAINING_EXAMPLES = 10_000
_NEAREST = 3
_NAMED_ANSWERS = 64
_BATCH = 250


class HasSplits(Protocol):
    """Data that a model was trained and tested on."""

    @property
    def train(self) -> Examples:
        """Examples that the model learned from."""

    @property
    def test(self) -> Examples:
        """Examples that the result is reported on."""

    @property
    def preprocessing(self) -> nn.Module:
        """Stored inputs → inputs of the model; on the device of the run."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Queries of some examples of a split.

    Args:
        positions: of the examples in their split, int64 [N].
        queries: z [N, d].
        targets: classes int64 [N], or values.
    """

    positions: IndexArray
    queries: Tensor
    targets: np.ndarray

    @classmethod
    def of(cls, model: HasNeighbors, preprocessing: nn.Module, examples: Examples, positions: IndexArray) -> Sample:
        """Compute the queries of the examples at ``positions`` int64 [N]."""
        queries = model_queries(model, preprocessing, examples, positions)
        return cls(positions=positions, queries=queries, targets=examples.targets[positions])

    def spread(self, most: int) -> Sample:
        """Take ``most`` of the examples, spread over all."""
        if len(self.positions) <= most:
            return self
        chosen = np.linspace(0, len(self.positions) - 1, most).astype(np.int64)
        return Sample(positions=self.positions[chosen], queries=self.queries[chosen], targets=self.targets[chosen])


def adaptation_record(
    model: Model, data: HasSplits, evaluation: Evaluation, training_score: float | None = None
) -> AdaptationRecord | None:
    """Look at a trained model in eval mode; None where its family does not look neighbors up.

    Args:
        model: preprocessed inputs → prediction.
        data: at most 256 test examples, spread over the split, and 10,000 drawn training examples are looked at.
        evaluation: of the whole test split.
        training_score: of the same epoch.
    """
    if not isinstance(model, HasNeighbors) or evaluation.unadapted_score is None:
        return None
    spread = np.linspace(0, len(data.test) - 1, min(_TEST_EXAMPLES, len(data.test))).astype(np.int64)
    count = min(_TRAINING_EXAMPLES, len(data.train))
    drawn = np.sort(np.random.default_rng(0).choice(len(data.train), size=count, replace=False)).astype(np.int64)
    record = measure(
        model,
        test=Sample.of(model, data.preprocessing, data.test, spread),
        train=Sample.of(model, data.preprocessing, data.train, drawn),
    )
    return replace(
        record,
        gain=evaluation.score - evaluation.unadapted_score,
        corrected=evaluation.corrected,
        broken=evaluation.broken,
        training_score=training_score,
    )


@torch.inference_mode()
def measure(model: HasNeighbors, *, test: Sample, train: Sample) -> AdaptationRecord:
    """Measure what samples of test and training examples show; figures of a whole split stay None.

    Faithfulness is measured on 256 of the test examples at most, and training examples are named for 64.
    """
    record = replace(
        AdaptationRecord.from_effect(effect_on(model, test.queries)),
        faithfulness=faithfulness(model, test.spread(_TEST_EXAMPLES).queries),
    )
    nearest = nearest_examples(model, train.queries)
    named = test.spread(_NAMED_ANSWERS)
    found = nearest[largest_entries(model, named.queries)].reshape(len(named.positions), -1)
    record = replace(
        record,
        neighbors=NamedExamples(
            answers=tuple(named.positions.tolist()),
            nearest=tuple(tuple(dict.fromkeys(train.positions[row].tolist())) for row in found),
        ),
    )
    if not isinstance(model, NeighborClassifier):
        return record
    labels = model.entry_labels().cpu().numpy()
    return replace(
        record,
        value_share=value_share(model),
        consistency=entry_consistency(labels, train.targets[nearest], examples=len(train.targets)),
        agreement=answer_agreement(_answers(model, test.queries), labels[largest_entries(model, test.queries)]),
    )


@torch.inference_mode()
def nearest_examples(model: HasNeighbors, queries: Tensor, count: int = _NEAREST) -> IndexArray:
    """Find the rows int64 [S, n] of ``queries`` z [M, d] that are nearest to every entry, by the model's similarity."""
    nearest = NearestSoFar(model, min(count, len(queries)))
    for start in range(0, len(queries), _BATCH):
        nearest.add(queries[start : start + _BATCH], start)
    positions: IndexArray = nearest.positions.numpy()
    return positions


@torch.inference_mode()
def largest_entries(model: HasNeighbors, queries: Tensor, count: int = LEFT_OUT) -> IndexArray:
    """Find the entries int64 [N, n] with the largest attention for queries z [N, d], largest first."""
    count = min(count, len(model.entry_keys()))
    parts = [model.attention_over_all(part).topk(count, dim=-1).indices for part in query_batches(model, queries)]
    entries: IndexArray = torch.cat(parts).cpu().numpy()
    return entries


def _answers(model: NeighborClassifier, queries: Tensor) -> IndexArray:
    """Classes int64 [N] of the adapted answers to queries z [N, d]."""
    parts = [model.classify(part).logits.argmax(dim=-1) for part in query_batches(model, queries)]
    answers: IndexArray = torch.cat(parts).cpu().numpy()
    return answers
