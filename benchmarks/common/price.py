"""Latency of an exported model over its vanilla twin on one thread, as `mnserve bench` measures it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnserve.bench.measure import measure
from mnserve.bench.settings import BenchSettings


def price_of(
    repository: Path, model: str, plain: str, batches: Sequence[int], *, seconds: float, rounds: int
) -> dict[str, Any]:
    """Measure the latency of ``model`` over that of ``plain``, taken in turn; returns the record of `mnserve bench`.

    Args:
        repository: repository of both models.
        model: name of the adaptive model.
        plain: name of the model that it is compared with.
        batches: rows of a call.
        seconds: measured time of each model and batch size.
        rounds: number of rounds; each gives one ratio.

    Raises:
        MnServeError: a model cannot be loaded or run.
    """
    settings = BenchSettings(
        repository=str(repository),
        model=model,
        against=plain,
        batch=",".join(map(str, batches)),
        threads=1,
        seconds=seconds,
        rounds=rounds,
    )
    return measure(settings).to_json()


def export_record(repository: Path, model: str) -> dict[str, Any]:
    """Read the record of the export of version 1 of a model."""
    record: dict[str, Any] = json.loads((repository / model / "1" / "export.json").read_text(encoding="utf-8"))
    return record


def rank_of(record: dict[str, Any]) -> int | None:
    """Return the rank of the file that mnserve runs on a CPU; None for forms without one."""
    rank: int | None = (record["adaptation"].get("integer_keys") or record["adaptation"]).get("rank")
    return rank
