"""What was found out about a model while it was loaded, in sentences for the log and for ``mnserve check``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Findings about one version of a model.

    Attributes:
        batching: Whether requests share batches, and why.
        warm_up: What was run, or why nothing was.
        threads: Threads and instances, and why.
        doubts: Faults that do not keep the model from being served; each was logged as a warning.
    """

    batching: str
    warm_up: str
    threads: str = ""
    doubts: tuple[str, ...] = ()
