"""Number of replicas from waiting rows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mnserve.distributed.scaling import QUEUED_ROWS, QueuedRowsPolicy


@pytest.mark.parametrize(
    ("waiting", "running", "wanted"),
    [
        (0, 0, 1),
        (0, 1, 1),
        (32, 1, 1),
        (33, 1, 2),
        (320, 2, 10),
        (64, 2, 2),
        (17, 2, 2),  # one replica would be over half of its target
        (16, 2, 1),
        (0, 5, 4),  # one at a time
    ],
)
def test_replicas_follow_the_rows_that_wait(waiting: float, running: int, wanted: int) -> None:
    assert QueuedRowsPolicy(target=32).replicas(waiting, running) == wanted


def test_rows_of_all_replicas_count() -> None:
    context = SimpleNamespace(aggregated_metrics={QUEUED_ROWS: {"a": 30.0, "b": 50.0}}, current_num_replicas=2)
    assert QueuedRowsPolicy(target=32)(context) == (3, {})
    silent = SimpleNamespace(aggregated_metrics={}, current_num_replicas=2)
    assert QueuedRowsPolicy(target=32)(silent) == (1, {})
