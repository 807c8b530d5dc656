"""Figures that stand beside the price of a model that acts: entries, rank, error, and change of weights."""

from pathlib import Path
from typing import Any

from common.price import rank_of

from mntrain.artifact import TableArtifact, load_artifact


def acting_figures(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Collect the figures of an exported model.

    Args:
        folder: of its artifact.
        record: of its export.

    Returns:
        ``entries`` S; ``rank``, None for exact forms; ``reason`` for an exact form; ``error``, the largest difference
        of a probability, or of a value in deviations of the target, in the parity check; ``weight_change``, the mean
        ‖w' − w‖ / ‖w‖, None where nobody measured it.
    """
    artifact = load_artifact(folder)
    deviation = artifact.config.standardization.target_std if isinstance(artifact, TableArtifact) else 1.0
    metrics = artifact.config.metrics
    errors = [item["max_error"] for item in record["parity"]["comparisons"]]
    return {
        "entries": artifact.config.experiment.model.entries,
        "rank": rank_of(record),
        "reason": record["adaptation"].get("reason"),
        "error": max(error.get("probabilities", error.get("value", 0.0)) for error in errors) / deviation,
        "weight_change": (metrics.get("adaptation") or metrics).get("weight_change"),
    }
