"""Limits of a batcher: rows of a batch, and the queue."""

from __future__ import annotations

from dataclasses import dataclass, field

from mnserve.batching.queue_policy import QueueRules
from mnserve.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class BatcherOptions:
    """Limits of one model's batcher.

    Attributes:
        max_batch_size: Most rows in one batch; 0 for a model without a batch dimension, whose requests run one by one.
        max_queue_rows: Most rows that may wait (those in the running batches do not count).
        max_queue_bytes: Most bytes of tensors that may wait; a request that would wait alone is always admitted.
        max_delay: Queue delay, in seconds that the oldest request may wait for others while an instance is idle; 0 for
            none. None lets the batcher find out, request by request, whether to wait a moment.
        preferred_sizes: Rows at which a batch is complete: it waits for no more requests, and takes no more.
        queue: Priorities, with the number and the time of waiting requests of each.
    """

    max_batch_size: int
    max_queue_rows: int
    max_queue_bytes: int = 2**30
    max_delay: float | None = 0.0
    preferred_sizes: tuple[int, ...] = ()
    queue: QueueRules = field(default_factory=QueueRules)

    def __post_init__(self) -> None:
        if self.max_queue_rows < max(1, self.max_batch_size):
            raise SettingsError(
                f"the queue holds {self.max_queue_rows} rows, less than one batch of "
                f"{max(1, self.max_batch_size)}; raise the queue limit or lower max_batch_size"
            )
        if self.max_queue_bytes < 1:
            raise SettingsError(f"the queue holds {self.max_queue_bytes} bytes; it must be 1 or more")
        if self.max_delay is not None and self.max_delay < 0:
            raise SettingsError(f"the queue delay is {self.max_delay} s; it must be 0 or more")
        if invalid := [size for size in self.preferred_sizes if not 1 <= size <= self.max_batch_size]:
            raise SettingsError(
                f"a preferred batch size is {invalid[0]}; it must be from 1 to max_batch_size {self.max_batch_size}"
            )
