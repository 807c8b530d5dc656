"""Batches that come alone: which of them run on an engine of their own, while the engines of a model use one CPU each.

Engines side by side answer more callers than one that divides each run among all CPUs. A single caller would wait
longer for them. Its batches come alone, one after the other, and run on an engine with a thread for each CPU.
"""

from __future__ import annotations


class LoneBatches:
    """Tells which batches come alone, one after the other.

    Args:
        rows: Least rows of a batch that gains from all CPUs.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._in_a_row = 0

    def has(self, rows: int, *, alone: bool) -> bool:
        """Returns True for a batch that is to run with all CPUs. To be asked for every batch, in their order.

        Threads of an engine look for work for some time after a run, and take CPUs from everything else. So the first
        batch that comes alone is not among them: it may be the first of many.

        Args:
            rows: Rows of the batch.
            alone: Nothing else runs or waits.
        """
        if not alone:
            self._in_a_row = 0
            return False
        self._in_a_row += 1
        return self._in_a_row > 1 and rows >= self._rows
