"""Record of what adaptation does to a trained model, and of what its neighbors show; verdicts in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from mntrain.acting.effect import Effect
from mntrain.acting.faithfulness import Faithfulness
from mntrain.acting.labels import AnswerAgreement, Consistency, label_verdict
from mntrain.training.evaluation import Metric

_LEAST_ANSWER_CHANGE = 0.005
"""Below this share of changed answers, or deviations of the target, adaptation is said not to act."""
_FITTED = 0.99
"""Accuracy on its training examples from which on a model is said to have fitted them."""


@dataclass(frozen=True, kw_only=True)
class NamedExamples:
    """Training examples that explain answers: those nearest to each answer's largest neighbors.

    Args:
        answers: positions of test examples in their split.
        nearest: for each, positions of different training examples in their split.
    """

    answers: tuple[int, ...]
    nearest: tuple[tuple[int, ...], ...]

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> NamedExamples:
        """Read what ``metrics.json`` holds."""
        return cls(answers=tuple(stored["answers"]), nearest=tuple(map(tuple, stored["nearest"])))


@dataclass(frozen=True, kw_only=True)
class AdaptationRecord:
    """Effect of adaptation on answers, and the meaning of its neighbors. What is not known is None.

    Args:
        examples: test examples that weights and answers were looked at for.
        weight_change: mean relative change ‖w' − w‖ / ‖w‖ of the adapted weights.
        answer_change: share of answers that change class; of values, the root mean square change in deviations of the
            target.
        gain: adapted minus unadapted score on the whole test split.
        corrected: answers on the whole test split that are right only after adaptation; None for values.
        broken: answers on the whole test split that are right only before adaptation; None for values.
        value_share: mean over entries of the largest share of their values; None for values.
        effective_entries: mean of exp(entropy of ω) over the test examples.
        training_score: score of the best epoch on its training examples, augmented as they were.
        consistency: of entries and their nearest training examples; None for models without classes.
        agreement: of answers and their largest neighbors; None for models without classes.
        faithfulness: of the named neighbors.
        neighbors: training examples that explain some answers.
    """

    examples: int
    weight_change: float
    answer_change: float
    gain: float | None = None
    corrected: int | None = None
    broken: int | None = None
    value_share: float | None = None
    effective_entries: float | None = None
    training_score: float | None = None
    consistency: Consistency | None = None
    agreement: AnswerAgreement | None = None
    faithfulness: Faithfulness | None = None
    neighbors: NamedExamples | None = None

    @classmethod
    def from_effect(cls, effect: Effect) -> AdaptationRecord:
        """Start a record with the effect on a sample."""
        return cls(**vars(effect))

    @property
    def acts(self) -> bool:
        """False where answers hardly change."""
        return self.answer_change >= _LEAST_ANSWER_CHANGE

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as ``metrics.json`` holds them."""
        return asdict(self)

    @classmethod
    def from_metrics(cls, metrics: Mapping[str, Any]) -> AdaptationRecord | None:
        """Read the record of a run's metrics; None where the run has none.

        Metrics of before consistency and agreement were told apart call the consistency agreement.
        """
        stored = metrics.get("adaptation")
        if not isinstance(stored, dict):
            return None
        if "consistency" not in stored:
            stored = stored | {"consistency": stored.get("agreement"), "agreement": None}
        known: dict[str, Any] = {field.name: stored.get(field.name) for field in fields(cls)}
        parts = {
            "consistency": lambda part: Consistency(**part),
            "agreement": lambda part: AnswerAgreement(**part),
            "faithfulness": Faithfulness.from_json,
            "neighbors": NamedExamples.from_json,
        }
        return cls(**known | {name: read(known[name]) for name, read in parts.items() if known[name] is not None})

    def describe(self, metric: Metric) -> str:
        """Put the effect into words."""
        answers = (
            f"{self.answer_change:.1%} of the answers change"
            if metric.percent
            else f"answers move by {self.answer_change:.3f} deviations of the target"
        )
        gain = "" if self.gain is None else f", {metric.name} {metric.text(self.gain, sign=True)}"
        counts = "" if self.corrected is None else f" ({self.corrected:,} corrected, {self.broken:,} broken)"
        part = "classifier" if metric.percent else "network"
        return f"adaptation changes the weights of the {part} by {self.weight_change:.1%}; {answers}{gain}{counts}"

    def describe_neighbors(self) -> list[str]:
        """Put into words what neighbors show: a sentence on their classes, and one on their faithfulness."""
        shares = [part.describe() for part in (self.consistency, self.agreement) if part is not None]
        return [
            *([f"neighbors: {', '.join(shares)}"] if shares else []),
            *([] if self.faithfulness is None else [f"faithfulness: {self.faithfulness.describe()}"]),
        ]

    def verdicts(self) -> list[str]:
        """Say where the dictionary does not act, and where explanations mean nothing; each with what to change."""
        verdicts = (
            None if self.acts else f"{self._does_not_act()}; {self._remedy()}",
            label_verdict(self.consistency, self.agreement),
            None if self.faithfulness is None else self.faithfulness.verdict(),
        )
        return [verdict for verdict in verdicts if verdict is not None]

    def _does_not_act(self) -> str:
        return (
            f"the dictionary hardly acts: adaptation changes the weights by {self.weight_change:.1%} and next to no "
            "answer, so the model answers like its own network without adaptation"
        )

    def _remedy(self) -> str:
        if self.corrected is not None and self.training_score is not None and self.training_score >= _FITTED:
            return (
                f"its network answers {self.training_score:.1%} of its training examples right, which leaves "
                "adaptation little to learn from: take stronger augmentation or a smaller network"
            )
        if self.consistency is not None and not self.consistency.is_noise:
            return (
                "let its step size grow (--meta_neighborhoods.start_change beside --meta_neighborhoods.init data, "
                "otherwise --meta_neighborhoods.step_size_rate)"
            )
        return (
            "start the entries from data (--meta_neighborhoods.init data), or let the rates fit the number of steps "
            "(--meta_neighborhoods.value_rate auto --meta_neighborhoods.step_size_rate auto)"
        )
