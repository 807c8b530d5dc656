"""Engine for batches that come alone: it uses every CPU, while the engines of a model use one each.

Engines side by side answer more callers than one that divides each run among all CPUs. A single caller would wait
longer for them. Its batches come alone, one after the other, and run here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mnserve.engines.base import Engine


@dataclass(kw_only=True)
class LoneBatches:
    """Chooses the engine of each batch; one object for all instances of a model.

    Attributes:
        engine: Engine with a thread for each CPU; its owner closes it.
        rows: Least rows of a batch that gains from it.
    """

    engine: Engine
    rows: int = 1
    _in_a_row: int = field(default=0, init=False)

    def choose(self, own: Engine, rows: int, *, alone: bool) -> Engine:
        """Returns the engine that runs a batch. Called in the thread of the instance that took it.

        The threads of the wide engine look for work for some time after a run, and take CPUs from everything else. So
        the first batch that comes alone does not run there yet.

        Args:
            own: Engine of the instance.
            rows: Rows of the batch.
            alone: Nothing else runs or waits.
        """
        if not alone:
            self._in_a_row = 0
            return own
        self._in_a_row += 1
        return self.engine if self._in_a_row > 1 and rows >= self.rows else own
