"""Figures of one run of a comparison, as its files tell them."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from mntrain.acting.record import AdaptationRecord
from mntrain.comparison.plan import PlannedRun
from mntrain.training.evaluation import metric_of


@dataclass(frozen=True, kw_only=True)
class RunFigures:
    """Figures of a finished run.

    Args:
        name: name of the run.
        seed: seed of the run.
        score: metric on the test split; of several targets their mean.
        unadapted: metric before adaptation; None where the family does not adapt.
        targets: the same two figures of each of several targets; empty for one target, or for classes.
        parameters: number of parameters of the model.
        epochs: number of trained epochs.
        seconds: time of training.
        split: digest of the data and of its split.
        adaptation: effect of adaptation; None where the family does not adapt, or the run is from before it was told.
    """

    name: str
    seed: int
    score: float
    unadapted: float | None
    targets: dict[str, tuple[float, float | None]]
    parameters: int
    epochs: int
    seconds: float
    split: str
    adaptation: AdaptationRecord | None = None

    @classmethod
    def of(cls, run: PlannedRun) -> "RunFigures":
        """Read the figures of a finished run.

        Raises:
            ConfigError: a file of the run cannot be read.
            ArtifactError: the run reports no known metric.
        """
        metrics = run.metrics()
        test = metrics["test"]
        metric = metric_of(test, run.name)
        return cls(
            name=run.name,
            seed=run.seed,
            score=float(test[metric.name]),
            unadapted=test.get(f"unadapted_{metric.name}"),
            targets={
                name: (float(of_target[metric.name]), of_target.get(f"unadapted_{metric.name}"))
                for name, of_target in test.get("targets", {}).items()
            },
            parameters=int(metrics["parameters"]),
            epochs=int(metrics["epochs"]),
            seconds=float(metrics["train_seconds"]),
            split=run.split_digest(),
            adaptation=AdaptationRecord.from_metrics(metrics),
        )

    @property
    def gain(self) -> float | None:
        """Adapted minus unadapted metric; None where the family does not adapt."""
        return None if self.unadapted is None else self.score - self.unadapted

    def of_target(self, target: str) -> "RunFigures":
        """Return the figures of one of several targets."""
        score, unadapted = self.targets[target]
        return replace(self, score=score, unadapted=unadapted, targets={}, adaptation=None)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without examples that single answers name; ``targets`` where there are several."""
        short = self if self.adaptation is None else replace(self, adaptation=replace(self.adaptation, neighbors=None))
        plain = asdict(short)
        targets = {name: {"score": score, "unadapted": before} for name, (score, before) in self.targets.items()}
        return plain | {"targets": targets} if targets else {name: plain[name] for name in plain if name != "targets"}
