"""Record of what adaptation does to a trained model, and of what its neighbors show; verdicts in sentences.

Shapes: N examples, S entries, C classes, B batch, d features. queries z [N, d], labels [N].
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import torch
from sklearn.metrics import cohen_kappa_score
from torch import Tensor, nn

from mntrain.data.examples import Examples, IndexArray
from mntrain.models.base import Model, Regressor
from mntrain.models.nearest import NearestSoFar
from mntrain.models.neighbors import HasNeighbors, NeighborClassifier
from mntrain.training.evaluation import Evaluation, Metric

_TEST_EXAMPLES = 256
_TRAINING_EXAMPLES = 2000
_NEAREST = 3
_BATCH_ELEMENTS = 20_000_000  # of the largest intermediate, [B, C, S] or [B, C, d]: 80 MB
_MAX_BATCH = 250
_LEAST_ANSWER_CHANGE = 0.005
"""Below this share of changed answers, or deviations of the target, adaptation is said not to act."""
_LEAST_AGREEMENT = 0.2
"""Cohen's kappa below which agreement counts as slight (Landis and Koch, 1977)."""


@dataclass(frozen=True, kw_only=True)
class EntryAgreement:
    """Agreement of the dictionary's entries with the training examples nearest to them.

    Args:
        examples: training examples that were looked at.
        nearest: examples of each entry.
        share: of the nearest examples that have their entry's likeliest class.
        chance: the same share, were classes of entries and of nearest examples independent.
        kappa: Cohen's kappa: 0 by chance, 1 where all agree.
    """

    examples: int
    nearest: int
    share: float
    chance: float
    kappa: float

    @property
    def is_noise(self) -> bool:
        """True where the classes of an entry and of its neighbors hardly have to do with each other."""
        return self.kappa < _LEAST_AGREEMENT

    def describe(self) -> str:
        """Put the agreement into words."""
        by_chance = f"(by chance {self.chance:.1%})"
        return f"{self.share:.1%} of the training examples nearest to an entry have its class {by_chance}"

    def verdict(self) -> str | None:
        """Say where explanations mean nothing; None where they do not."""
        if not self.is_noise:
            return None
        return (
            f"explanations mean little here: {self.describe()}, so the neighbors of an answer are labelled almost at "
            "random"
        )


@dataclass(frozen=True, kw_only=True)
class AdaptationRecord:
    """Effect of adaptation on answers.

    Args:
        examples: test examples that weights and answers were looked at for.
        weight_change: mean relative change ‖w' − w‖ / ‖w‖ of the adapted weights.
        answer_change: share of answers that change class; of values, the root mean square change in deviations of the
            target.
        gain: adapted minus unadapted score on the whole test split; None where it is not known.
        agreement: of entries and their nearest training examples; None for models without classes.
    """

    examples: int
    weight_change: float
    answer_change: float
    gain: float | None = None
    agreement: EntryAgreement | None = None

    @property
    def acts(self) -> bool:
        """False where answers hardly change."""
        return self.answer_change >= _LEAST_ANSWER_CHANGE

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as ``metrics.json`` holds them."""
        return asdict(self)

    @classmethod
    def from_metrics(cls, metrics: dict[str, Any]) -> AdaptationRecord | None:
        """Read the record of a run's metrics; None where the run has none."""
        stored = metrics.get("adaptation")
        if not isinstance(stored, dict):
            return None
        agreement = stored.get("agreement")
        known: dict[str, Any] = {field.name: stored.get(field.name) for field in fields(cls)}
        return cls(**known | {"agreement": None if agreement is None else EntryAgreement(**agreement)})

    def describe(self, metric: Metric) -> str:
        """Put the effect into words."""
        answers = (
            f"{self.answer_change:.1%} of the answers change"
            if metric.percent
            else f"answers move by {self.answer_change:.3f} deviations of the target"
        )
        gain = "" if self.gain is None else f", {metric.name} {metric.text(self.gain, sign=True)}"
        part = "classifier" if metric.percent else "network"
        return f"adaptation changes the weights of the {part} by {self.weight_change:.1%}; {answers}{gain}"

    def verdicts(self) -> list[str]:
        """Say where the dictionary does not act, and where explanations mean nothing."""
        found = []
        if not self.acts:
            found.append(
                f"the dictionary hardly acts: adaptation changes the weights by {self.weight_change:.1%} and next to "
                "no answer, so the model answers like its own network without adaptation"
            )
        if self.agreement is not None and (verdict := self.agreement.verdict()) is not None:
            found.append(verdict)
        return found


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


def adaptation_record(model: Model, data: HasSplits, evaluation: Evaluation) -> AdaptationRecord | None:
    """Look at a trained model in eval mode; None where its family does not look neighbors up.

    Args:
        model: preprocessed inputs → prediction.
        data: at most 256 test examples, spread over the split, and 2,000 drawn training examples are looked at.
        evaluation: of the whole test split.
    """
    preprocessing, test, train = data.preprocessing, data.test, data.train
    classifier = model if isinstance(model, NeighborClassifier) else None
    neighbors: HasNeighbors | None = classifier or (model if isinstance(model, HasNeighbors) else None)
    if neighbors is None or evaluation.unadapted_score is None:
        return None
    spread = np.linspace(0, len(test) - 1, min(_TEST_EXAMPLES, len(test))).astype(np.int64)
    record = effect_on(neighbors, model_queries(neighbors, preprocessing, test, spread))
    record = replace(record, gain=evaluation.score - evaluation.unadapted_score)
    if classifier is None:
        return record
    count = min(_TRAINING_EXAMPLES, len(train))
    drawn = np.sort(np.random.default_rng(0).choice(len(train), size=count, replace=False)).astype(np.int64)
    features = model_queries(classifier, preprocessing, train, drawn)
    return replace(record, agreement=entry_agreement(classifier, features, torch.from_numpy(train.targets[drawn])))


@torch.inference_mode()
def model_queries(model: HasNeighbors, preprocessing: nn.Module, examples: Examples, chosen: IndexArray) -> Tensor:
    """Compute queries z [N, d] of the examples at ``chosen`` int64 [N]."""
    device = next(preprocessing.buffers()).device
    parts = [chosen[start : start + _MAX_BATCH] for start in range(0, len(chosen), _MAX_BATCH)]
    return torch.cat(
        [model.queries(preprocessing(torch.from_numpy(examples.inputs[part]).to(device))) for part in parts]
    )


@torch.inference_mode()
def effect_on(model: HasNeighbors, queries: Tensor) -> AdaptationRecord:
    """Measure how far adaptation moves weights and answers for queries z [N, d], without gain and agreement."""
    keys, values = model.entry_keys(), model.entry_values()
    width = max(keys.shape[1], len(keys)) * max(64, values[0].numel())
    size = max(1, min(_MAX_BATCH, _BATCH_ELEMENTS // width))
    parts = torch.split(queries, size)
    moved = torch.cat([model.weight_change(part) for part in parts])
    changed = torch.cat([_answer_change(model, part) for part in parts])
    classifies = isinstance(model, NeighborClassifier)
    return AdaptationRecord(
        examples=len(queries),
        weight_change=float(moved.double().mean()),
        answer_change=float(changed.double().mean() if classifies else changed.double().mean().sqrt()),
    )


@torch.inference_mode()
def entry_agreement(model: NeighborClassifier, features: Tensor, labels: Tensor) -> EntryAgreement:
    """Compare the class of every entry with the classes of the examples nearest to it, by the model's own similarity.

    Args:
        features: z [N, d] of training examples.
        labels: their classes, int64 [N].
    """
    count = min(_NEAREST, len(features))
    nearest = NearestSoFar(model, count)
    for start in range(0, len(features), _MAX_BATCH):
        nearest.add(features[start : start + _MAX_BATCH], start)
    found = labels[nearest.positions.cpu()].numpy().ravel()
    entries = model.entry_labels().cpu().unsqueeze(1).expand(-1, count).numpy().ravel()
    return agreement_of(entries, found, examples=len(features), nearest=count)


def agreement_of(entries: IndexArray, found: IndexArray, *, examples: int, nearest: int) -> EntryAgreement:
    """Compare classes of entries with those of their nearest examples, int64 [S·n] each.

    Args:
        examples: examples that were looked at.
        nearest: n.
    """
    classes = int(max(entries.max(), found.max())) + 1
    shares = [np.bincount(part, minlength=classes) / len(part) for part in (entries, found)]
    kappa = cohen_kappa_score(entries, found) if len(np.unique(np.concatenate([entries, found]))) > 1 else 0.0
    return EntryAgreement(
        examples=examples,
        nearest=nearest,
        share=float((entries == found).mean()),
        chance=float(shares[0] @ shares[1]),
        kappa=float(kappa),
    )


def _answer_change(model: HasNeighbors, queries: Tensor) -> Tensor:
    """1 where the class changes, else 0; of values the squared change, averaged over targets: [B]."""
    if isinstance(model, NeighborClassifier):
        prediction = model.classify(queries)
        assert prediction.unadapted_logits is not None
        return (prediction.logits.argmax(dim=-1) != prediction.unadapted_logits.argmax(dim=-1)).double()
    assert isinstance(model, Regressor)
    estimate = model(queries)  # the queries of a regressor are its inputs
    changes: Tensor = (estimate.values - estimate.unadapted_values).double().square()
    return changes.reshape(len(queries), -1).mean(dim=-1)
