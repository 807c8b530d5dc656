"""What adaptation does in the runs of one variant: means of their records, and stability over seeds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mntrain.acting.record import AdaptationRecord
from mntrain.comparison.stability import Stability, neighbor_stability


@dataclass(frozen=True, kw_only=True)
class Acting:
    """Means over the runs of a variant. What no run tells is None; see AdaptationRecord for each figure.

    Args:
        gain: adapted minus unadapted score.
        weight_change: relative change of the adapted weights.
        answer_change: share of answers that change; of values, their change in deviations of the target.
        corrected: test answers that adaptation corrects, a run.
        broken: test answers that it breaks, a run.
        value_share: largest share of an entry's values.
        effective_entries: exp(entropy of the attention).
        consistency: share of an entry's nearest training examples that have its class.
        consistency_chance: the same by chance.
        agreement: share of an answer's largest neighbors that have its class.
        agreement_chance: the same by chance.
        faithfulness: absolute move of an answer without its largest neighbors, in probability or deviations.
        faithfulness_random: the same without as many random entries.
        stability: of the named training examples over seeds; None for one seed, or where splits differ.
    """

    gain: float | None = None
    weight_change: float | None = None
    answer_change: float | None = None
    corrected: float | None = None
    broken: float | None = None
    value_share: float | None = None
    effective_entries: float | None = None
    consistency: float | None = None
    consistency_chance: float | None = None
    agreement: float | None = None
    agreement_chance: float | None = None
    faithfulness: float | None = None
    faithfulness_random: float | None = None
    stability: Stability | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Acting":
        """Read what :meth:`to_json` has written."""
        stability = stored.get("stability")
        return cls(**{**stored, "stability": None if stability is None else Stability(**stability)})


def acting_of(gains: Sequence[float], records: Sequence[AdaptationRecord], *, same_split: bool) -> Acting:
    """Average the records of the runs of one variant.

    Args:
        gains: adapted minus unadapted score of each run; empty where they are not known.
        records: of the runs that have one.
        same_split: whether all runs were trained and tested on the same examples, so that positions are comparable.
    """

    def mean(figure: str, of: str | None = None) -> float | None:
        parts = [record if of is None else getattr(record, of) for record in records]
        known = [value for part in parts if part is not None and (value := getattr(part, figure)) is not None]
        return statistics.mean(known) if known else None

    named = [record.neighbors for record in records if record.neighbors is not None]
    return Acting(
        gain=statistics.mean(gains) if gains else None,
        weight_change=mean("weight_change"),
        answer_change=mean("answer_change"),
        corrected=mean("corrected"),
        broken=mean("broken"),
        value_share=mean("value_share"),
        effective_entries=mean("effective_entries"),
        consistency=mean("share", of="consistency"),
        consistency_chance=mean("chance", of="consistency"),
        agreement=mean("share", of="agreement"),
        agreement_chance=mean("chance", of="agreement"),
        faithfulness=mean("named_size", of="faithfulness"),
        faithfulness_random=mean("random_size", of="faithfulness"),
        stability=neighbor_stability(named) if same_split else None,
    )
