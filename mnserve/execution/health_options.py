"""Rules by which an engine counts as broken: a batch that does not end, or a failure on inputs that worked before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mnserve.codec.decoding import InferenceWork

PROBE_SECONDS = 1.0
"""Shortest time between two probes of an engine, so that bad requests do not keep it busy with them."""


@dataclass(frozen=True, kw_only=True)
class EngineHealthOptions:
    """Limits on the time of a batch, and the probe of an engine.

    Attributes:
        run_timeout: Seconds that a batch may take; 0 for no limit.
        probe: Makes the work that the engine did when it was loaded, done again after a request fails; None for no
            probe.
        probe_seconds: Shortest time between two probes.
    """

    run_timeout: float = 0.0
    probe: Callable[[], InferenceWork] | None = None
    probe_seconds: float = PROBE_SECONDS
