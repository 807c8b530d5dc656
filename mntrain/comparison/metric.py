"""Which figure of ``metrics.json`` a comparison is about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mntrain.errors import ArtifactError


@dataclass(frozen=True, kw_only=True)
class ReportedMetric:
    """A figure that a run reports on its test split.

    Args:
        name: in ``metrics.json``; the figure before adaptation is ``unadapted_NAME``.
        percent: whether it is a share, shown in percent.
    """

    name: str
    percent: bool

    def show(self, value: float | None, *, sign: bool = False) -> str:
        """The value as text; nothing where there is none."""
        if value is None:
            return ""
        kind = ".2%" if self.percent else ".4g"
        return f"{value:{'+' if sign else ''}{kind}}"


METRICS = (ReportedMetric(name="accuracy", percent=True), ReportedMetric(name="mse", percent=False))


def metric_of(test: Mapping[str, Any], run: str) -> ReportedMetric:
    """The metric that a run reports.

    Args:
        test: ``test`` of its metrics.json.
        run: name of the run, for the message.

    Raises:
        ArtifactError: none that is known.
    """
    for metric in METRICS:
        if isinstance(test.get(metric.name), (int, float)):
            return metric
    raise ArtifactError(
        f"metrics.json of run {run} reports {', '.join(sorted(test)) or 'nothing'} on the test split, expected "
        f"{' or '.join(metric.name for metric in METRICS)}; train the run again."
    )
