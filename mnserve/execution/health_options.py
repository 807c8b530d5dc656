"""When an engine counts as broken: a run that does not end, or one that fails on what it could do before."""

from __future__ import annotations

from dataclasses import dataclass

from mnserve.execution.batch import InferenceWork

__all__ = ["PROBE_SECONDS", "EngineHealthOptions"]

PROBE_SECONDS = 1.0
"""Least time between two probes of an engine, so that bad requests do not keep it busy with them."""


@dataclass(frozen=True, kw_only=True)
class EngineHealthOptions:
    """What is looked at.

    Attributes:
        run_timeout: Seconds that a run may take; 0 for no limit.
        probe: A batch that the engine ran when it was loaded, run again where a request fails; None for no probe.
    """

    run_timeout: float = 0.0
    probe: InferenceWork | None = None
