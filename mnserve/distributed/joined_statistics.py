"""Counters of a model at all replicas, as one."""

from __future__ import annotations

from collections.abc import Iterable

from mnserve.protocol import service_pb2 as pb

_DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")
_BATCH_DURATIONS = ("compute_input", "compute_infer", "compute_output")


def join_statistics(replicas: Iterable[Iterable[pb.ModelStatistics]]) -> list[pb.ModelStatistics]:
    """Sums the counters of each model and version over all replicas.

    Args:
        replicas: Counters that each replica has.

    Returns:
        The sums, by name and version; the last inference is the latest of all.
    """
    joined: dict[tuple[str, str], pb.ModelStatistics] = {}
    for statistics in replicas:
        for entry in statistics:
            total = joined.setdefault((entry.name, entry.version), pb.ModelStatistics())
            total.name, total.version = entry.name, entry.version
            total.last_inference = max(total.last_inference, entry.last_inference)
            total.inference_count += entry.inference_count
            total.execution_count += entry.execution_count
            for name in _DURATIONS:
                _add(getattr(total.inference_stats, name), getattr(entry.inference_stats, name))
            _add_batches(total, entry)
    return [joined[key] for key in sorted(joined)]


def _add_batches(total: pb.ModelStatistics, entry: pb.ModelStatistics) -> None:
    batches = {batch.batch_size: batch for batch in total.batch_stats}
    for batch in entry.batch_stats:
        if (sum_of := batches.get(batch.batch_size)) is None:
            total.batch_stats.append(batch)
            continue
        for name in _BATCH_DURATIONS:
            _add(getattr(sum_of, name), getattr(batch, name))


def _add(total: pb.StatisticDuration, part: pb.StatisticDuration) -> None:
    total.count += part.count
    total.ns += part.ns
