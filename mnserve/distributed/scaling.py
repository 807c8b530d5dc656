"""Number of replicas from the rows that wait at them: a policy of Ray Serve's autoscaler.

The controller of Ray Serve runs a copy of this module, so it imports nothing of ours.
"""

from __future__ import annotations

import math
from typing import Any, Final

QUEUED_ROWS: Final = "queued_rows"
"""Metric that replicas report: rows that wait for an engine."""


class QueuedRowsPolicy:
    """Asks for as many replicas as keep the rows that wait at each of them below a target.

    Ray Serve averages what replicas report over its look-back period, keeps the number between the least and the most,
    and waits for its delays before it changes it.

    Args:
        target: Rows that may wait at each replica.
    """

    def __init__(self, target: int) -> None:
        self._target = target

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """Returns the replicas to have.

        Args:
            context: Ray Serve's ``AutoscalingContext``.
        """
        waiting: dict[Any, float] = (context.aggregated_metrics or {}).get(QUEUED_ROWS, {})
        return self.replicas(sum(waiting.values()), context.current_num_replicas), {}

    def replicas(self, waiting: float, running: int) -> int:
        """Returns the replicas that a number of waiting rows needs.

        Args:
            waiting: Rows that wait at all replicas.
            running: Replicas that there are. One of them may go where the others would be at half of the target.
        """
        needed = math.ceil(waiting / self._target)
        fewer = running - 1
        if needed < running and fewer and waiting <= fewer * self._target / 2:
            return fewer
        return max(1, needed, running)
