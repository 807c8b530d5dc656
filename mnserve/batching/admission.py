"""Who may join the waiting line: limits on requests, rows and bytes."""

from __future__ import annotations

from mnserve.batching.options import BatcherOptions
from mnserve.batching.request_queue import RequestQueue
from mnserve.errors import QueueFullError

__all__ = ["check_admission_limits"]


def check_admission_limits(
    waiting: RequestQueue,
    options: BatcherOptions,
    name: str,
    *,
    rows: int,
    nbytes: int,
    level: int,
    ahead: tuple[int, int] = (0, 0),
) -> None:
    """Whether there is room for one more request.

    Args:
        waiting: Who waits already.
        options: The limits.
        name: Name of the model, for messages.
        rows: Rows of the request.
        nbytes: Bytes of its tensors; 0 where they are not known yet.
        level: Its priority level.
        ahead: Rows and bytes of those that have left the line and still wait for an engine.

    Raises:
        QueueFullError: Too many requests, rows or bytes are waiting.
    """
    waiting_rows, waiting_bytes = waiting.rows + ahead[0], waiting.nbytes + ahead[1]
    if waiting_rows + rows > options.max_queue_rows:
        raise QueueFullError(
            f"model '{name}': {waiting_rows} rows are waiting, and {rows} more would exceed the limit of "
            f"{options.max_queue_rows}; try again later"
        )
    if waiting_rows and waiting_bytes + nbytes > options.max_queue_bytes:
        raise QueueFullError(
            f"model '{name}': {waiting_bytes} bytes are waiting, and {nbytes} more would exceed the limit of "
            f"{options.max_queue_bytes}; try again later"
        )
    most = options.queue.policy(level).max_requests
    if most and waiting.count(level) >= most:
        whose = f" of priority level {level}" if options.queue.levels else ""
        raise QueueFullError(
            f"model '{name}': {waiting.count(level)} requests{whose} are waiting, and max_queue_size is {most}; try "
            "again later"
        )
