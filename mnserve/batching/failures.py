"""Handling of failed batches: their requests run again singly, and the engine is probed.

A probe is a batch that the engine ran when it was loaded, and that no request waits for.
"""

from __future__ import annotations

import logging
import math

from mnserve.errors import EngineInputError
from mnserve.execution.batch import Batch
from mnserve.execution.clock import Clock
from mnserve.execution.health_options import EngineHealthOptions

_log = logging.getLogger(__name__)


class Failures:
    """Finds the request that made a batch fail, and notices an engine that fails on everything.

    Args:
        name: Name of the model, for messages.
        health: The probe, and the shortest time between two.
        clock: Monotonic time.
    """

    def __init__(self, name: str, health: EngineHealthOptions, clock: Clock) -> None:
        self._name = name
        self._health = health
        self._clock = clock
        self._last_probe = -math.inf

    def follow_up(self, batch: Batch, error: BaseException) -> list[Batch]:
        """Makes the batches to run after a failure; a request that ran alone gets the error.

        Args:
            batch: The batch that failed; not a probe.
            error: Error of the engine.
        """
        if len(batch.requests) > 1:
            _log.warning("model '%s': a batch of %d requests failed, retrying singly", self._name, len(batch.requests))
            return [Batch([request], [request.work]) for request in batch.requests if not request.reply.done()]
        batch.fail(error)
        return self._probes(error)

    def _probes(self, error: BaseException) -> list[Batch]:
        """Makes a probe, unless the error lies in the request's values, or the last probe was a moment ago."""
        probe, now = self._health.probe, self._clock.seconds()
        if probe is None or isinstance(error, EngineInputError) or now - self._last_probe < self._health.probe_seconds:
            return []
        self._last_probe = now
        return [Batch([], [probe()])]
