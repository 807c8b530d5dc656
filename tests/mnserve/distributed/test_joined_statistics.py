"""Counters of several replicas as one."""

from __future__ import annotations

from mnserve.distributed.joined_statistics import join_statistics
from mnserve.execution.results import BatchResult, BatchTimes
from mnserve.models.statistics import ModelCounters
from mnserve.protocol import service_pb2 as pb


def counted(name: str, rows: int) -> pb.ModelStatistics:
    counters = ModelCounters(name, 1, lambda: 0)
    times = BatchTimes(input_ns=1, infer_ns=10, output_ns=2)
    counters.record_batch(BatchResult(outputs=[], rows=rows, times=times))
    counters.record_success(rows=rows, total_ns=100, queue_ns=5, times=times)
    counters.record_failure(reason="OTHER", total_ns=7)
    return counters.message()


def test_every_counter_is_summed() -> None:
    one, other = counted("a", 4), counted("a", 4)
    other.last_inference = one.last_inference + 1000
    (total,) = join_statistics([[one], [other]])
    assert (total.name, total.version, total.last_inference) == ("a", "1", other.last_inference)
    assert (total.inference_count, total.execution_count) == (8, 2)
    for field, _ in one.inference_stats.ListFields():
        part, whole = getattr(one.inference_stats, field.name), getattr(total.inference_stats, field.name)
        assert (whole.count, whole.ns) == (2 * part.count, 2 * part.ns), field.name
    (batch,) = total.batch_stats
    assert (batch.batch_size, batch.compute_infer.count, batch.compute_infer.ns) == (4, 2, 20)


def test_models_and_sizes_of_batches_stay_apart() -> None:
    totals = join_statistics([[counted("b", 1), counted("a", 2)], [counted("a", 8)]])
    assert [total.name for total in totals] == ["a", "b"]
    assert [batch.batch_size for batch in totals[0].batch_stats] == [2, 8]
    assert totals[0].inference_count == 10
