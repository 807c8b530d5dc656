"""Read sweeps over trained models from ``compare.json`` files."""

import json
from dataclasses import dataclass
from pathlib import Path

from mntrain.errors import ArtifactError
from mntrain.plotting.style import LARGEST
from mntrain.regular_files import read_text
from mntrain.training.evaluation import METRICS


@dataclass(frozen=True, kw_only=True)
class TrainedSweep:
    """Sweep of one field over several values, with models trained anew for each.

    Args:
        recipe: recipe of the models.
        field: swept field.
        values: values of the field as written.
        scores: scores of all seeds, for each value.
        metric: name of the scores.
    """

    recipe: str
    field: str
    values: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]
    metric: str

    def check(self) -> None:
        """Check that the sweep can be drawn.

        Raises:
            ValueError: values and scores do not belong together, a score is not finite, or the metric is unknown.
        """
        if not self.values or len(self.values) != len(self.scores):
            raise ValueError(f"{self.field} has {len(self.values)} values and {len(self.scores)} variants")
        if not all(abs(score) < LARGEST for scores_of_value in self.scores for score in scores_of_value):
            raise ValueError(f"a score of {self.field} is not finite")
        if self.metric not in METRICS:
            raise ValueError(f"its metric is {self.metric[:40]!r}")

    @property
    def percent(self) -> bool:
        """True if the scores are shares."""
        return METRICS[self.metric].percent


def read_sweeps(file: Path) -> tuple[TrainedSweep, ...]:
    """Read all sweeps of a ``compare.json``.

    Raises:
        ArtifactError: the file cannot be read, or holds no comparison or no sweep.
    """
    try:
        content = json.loads(read_text(file))
        scores = {row["variant"]: tuple(float(run["score"]) for run in row["runs"]) for row in content["variants"]}
        sweeps = tuple(
            TrainedSweep(
                recipe=str(content["recipe"]),
                field=str(entry["field"]),
                values=tuple(str(value) for value in entry["values"]),
                scores=tuple(scores[name] for name in entry["variants"]),
                metric=str(content["metric"]),
            )
            for entry in content["sweeps"]
        )
        for sweep in sweeps:
            sweep.check()
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or repr(error)
        raise ArtifactError(f"{file} is no result of `mntrain compare` ({reason}); give a compare.json.") from error
    if not sweeps:
        raise ArtifactError(f"{file} holds no sweep; make one with `mntrain compare … --sweep FIELD=V1,V2`.")
    return sweeps
