"""Faithfulness of explanations: how an answer moves when its named neighbors are left out, beside random ones.

The measure is *comprehensiveness* (DeYoung et al., 2020, ERASER, section 4): the probability p_y of the answer y minus
the one without what explains it. Over growing numbers of left-out entries it is the perturbation curve of Samek et al.
(2017), whose mean is the AOPC. Entries are left out exactly: the attention is renormalized over the rest, and the
inner update is computed anew. Estimates have no probability; their absolute change is taken, in deviations of the
target.

Shapes: N queries, B of a batch, S entries, C classes, T targets. queries z [N, d], attention ω [B, S].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from mntrain.models.base import Regressor
from mntrain.models.neighbors import HasNeighbors, NeighborClassifier
from mntrain.models.queries import query_batches

LEFT_OUT = 3
"""Neighbors that count as named."""
_CURVE = (1, 3, 10, 30, 100)
_DRAWS = 3
_MOST_WORK = 2_000_000_000_000
"""Multiplications for all answers; large dictionaries are looked at for fewer answers."""
_FEWEST_ANSWERS = 16
_LEAST_RATIO = 2.0
"""Below this ratio of the moves by named and by random entries, the named ones are said to explain little."""
_LEAST_WHOLE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    """How answers move without their named neighbors, those with the largest attention.

    A move is p_y with all entries minus p_y without some, in [−1, 1]; of values, the absolute change in deviations of
    the target, averaged over targets.

    Args:
        measure: ``comprehensiveness``, or ``absolute_change`` of values.
        answers: answers to test examples that were looked at.
        left_out: entries that are left out of each answer.
        draws: draws of random entries for each answer.
        named: mean move without the named entries.
        random: mean move without as many random ones.
        named_size: mean absolute move without the named entries.
        random_size: the same without as many random ones.
        whole: mean move without adaptation, that is p_y after minus before it.
        whole_size: mean absolute move without adaptation.
        attention: mean share of the attention that the named entries carry.
        further: share of answers that move further without the named entries than without random ones; by chance 0.5.
        curve_left_out: growing numbers of left-out entries.
        curve_named: mean absolute move of each, without those with the largest attention.
        curve_random: the same without random ones.
    """

    measure: str
    answers: int
    left_out: int
    draws: int
    named: float
    random: float
    named_size: float
    random_size: float
    whole: float
    whole_size: float
    attention: float
    further: float
    curve_left_out: tuple[int, ...]
    curve_named: tuple[float, ...]
    curve_random: tuple[float, ...]

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Faithfulness:
        """Read what ``metrics.json`` holds."""
        known: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in stored.items()}
        return cls(**known)

    @property
    def of_whole(self) -> float | None:
        """Absolute move without the named entries, relative to that without adaptation; None where it does nothing."""
        return self.named_size / self.whole_size if self.whole_size > _LEAST_WHOLE else None

    @property
    def is_noise(self) -> bool:
        """True where named entries matter hardly more than random ones."""
        return self.named_size < _LEAST_RATIO * self.random_size

    def describe(self) -> str:
        """Put the measure into words."""
        named, random = self.text(self.named_size), self.text(self.random_size)
        part = "" if self.of_whole is None else f", {self.of_whole:.0%} of the effect of adaptation"
        return (
            f"without its {self.left_out} largest neighbors ({self.attention:.1%} of the attention) an answer moves by "
            f"{named}{part}; without random ones by {random}"
        )

    def verdict(self) -> str | None:
        """Say where named entries explain nothing, and what to change; None where they do."""
        if not self.is_noise:
            return None
        return (
            f"explanations mean little here: {self.describe()}; a lower --meta_neighborhoods.temperature gathers the "
            "attention on fewer entries"
        )

    def text(self, size: float) -> str:
        """Write a mean absolute move for people: in points of probability, or deviations of the target."""
        if self.measure == "comprehensiveness":
            return f"{100 * size:.2g} points of probability"
        return f"{size:.2g} deviations of the target"


@torch.inference_mode()
def faithfulness(model: HasNeighbors, queries: Tensor) -> Faithfulness | None:
    """Measure the moves for queries z [N, d]; None for a dictionary of one entry.

    Random entries are drawn from a generator of its own. A dictionary so large that all answers would take more than
    2·10¹² multiplications is looked at for fewer of them, 16 at least.
    """
    entries = len(model.entry_keys())
    if entries < 2:
        return None
    left_out = min(LEFT_OUT, entries - 1)
    counts = sorted({left_out, *takewhile(lambda count: count < entries, _CURVE)})
    queries = _affordable(model, queries, passes=len(counts) * (1 + _DRAWS))
    generator = torch.Generator().manual_seed(0)
    parts = [_moves(model, part, counts, generator) for part in query_batches(model, queries)]
    named, random = (torch.cat([part[side] for part in parts]) for side in (0, 1))  # [N, counts], [N, counts, draws]
    whole, attention = (torch.cat([part[side] for part in parts]) for side in (2, 3))  # [N]
    at = counts.index(left_out)
    own, others = named[:, at].abs(), random[:, at].abs().mean(dim=-1)
    return Faithfulness(
        measure="comprehensiveness" if isinstance(model, NeighborClassifier) else "absolute_change",
        answers=len(queries),
        left_out=left_out,
        draws=_DRAWS,
        named=float(named[:, at].mean()),
        random=float(random[:, at].mean()),
        named_size=float(own.mean()),
        random_size=float(others.mean()),
        whole=float(whole.mean()),
        whole_size=float(whole.abs().mean()),
        attention=float(attention.mean()),
        further=float(((own > others).double() + 0.5 * (own == others).double()).mean()),
        curve_left_out=tuple(counts),
        curve_named=tuple(named.abs().mean(dim=0).tolist()),
        curve_random=tuple(random.abs().mean(dim=(0, 2)).tolist()),
    )


def _affordable(model: HasNeighbors, queries: Tensor, passes: int) -> Tensor:
    """Take as many of the queries, spread over all, as their answers are affordable."""
    work = passes * model.entry_keys().numel() * model.entry_values()[0].numel()
    most = max(_FEWEST_ANSWERS, _MOST_WORK // work)
    if len(queries) <= most:
        return queries
    return queries[torch.linspace(0, len(queries) - 1, most, device=queries.device).long()]


def _moves(
    model: HasNeighbors, queries: Tensor, counts: Sequence[int], generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Moves without the largest [B, counts], without random entries [B, counts, draws], and without adaptation [B];
    attention [B] of the named entries.
    """
    answers = _Answers(model, queries)
    attention = model.attention_over_all(queries)
    largest = attention.topk(counts[-1], dim=-1)
    named = torch.stack([answers.moved_without(largest.indices[:, :count]) for count in counts], dim=1)
    random = []
    for _ in range(_DRAWS):
        drawn = torch.rand(attention.shape, generator=generator).topk(counts[-1], dim=-1).indices.to(queries.device)
        random.append(torch.stack([answers.moved_without(drawn[:, :count]) for count in counts], dim=1))
    shares = largest.values[:, : min(LEFT_OUT, attention.shape[1] - 1)].double().sum(dim=-1)
    return named.cpu(), torch.stack(random, dim=-1).cpu(), answers.moved_without_adaptation().cpu(), shares.cpu()


class _Answers:
    """Answers to some queries, and how they move.

    Args:
        model: in eval mode.
        queries: [B, d].
    """

    def __init__(self, model: HasNeighbors, queries: Tensor) -> None:
        self._model, self._queries = model, queries
        self._classifies = isinstance(model, NeighborClassifier)
        if isinstance(model, NeighborClassifier):
            prediction = model.classify(queries)
            self._all, unadapted = prediction.logits, prediction.unadapted_logits
        else:
            assert isinstance(model, Regressor)
            estimate = model(queries)  # the queries of a regressor are its inputs
            self._all, unadapted = estimate.values, estimate.unadapted_values
        assert unadapted is not None
        self._unadapted = unadapted

    def moved_without(self, entries: Tensor) -> Tensor:
        """Moves [B] without ``entries``, int64 [B, n]."""
        keep = torch.ones(len(self._queries), len(self._model.entry_keys()), dtype=torch.bool, device=entries.device)
        return self._move(self._model.answers_from(self._queries, keep.scatter_(1, entries, False)))

    def moved_without_adaptation(self) -> Tensor:
        """Moves [B] to the answers before adaptation."""
        return self._move(self._unadapted)

    def _move(self, answers: Tensor) -> Tensor:
        """Moves [B] from the answers with all entries to ``answers``: logits [B, C], or values [B] or [B, T]."""
        before, after = self._all.double(), answers.double()
        if not self._classifies:
            return (before - after).abs().reshape(len(before), -1).mean(dim=-1)
        chosen = before.argmax(dim=-1, keepdim=True)
        return (before.softmax(dim=-1) - after.softmax(dim=-1)).gather(1, chosen).squeeze(1)
