"""A configuration that may be chosen, as far as a tuner decides it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What a tuner decides about a model."""

    max_batch_size: int
    """Most rows in a batch; 0 for a model without a batch dimension."""
    delay_us: int
    """Microseconds that a request may wait for company while an instance is idle."""
    instances: int
    """Engines side by side."""
    threads: int
    """Threads of each instance within one operator."""

    @property
    def simplicity(self) -> tuple[int, int, int]:
        """Less is simpler: instances, then threads of all of them, then the delay."""
        return self.instances, self.instances * self.threads, self.delay_us

    @property
    def label(self) -> str:
        """The candidate in words."""
        engines = f"{counted(self.instances, 'instance')} of {counted(self.threads, 'thread')}"
        if not self.max_batch_size:
            return engines
        return f"batches of up to {self.max_batch_size}, delay {self.delay_us / 1e3:g} ms, {engines}"


def counted(number: int, noun: str) -> str:
    """A number and what it counts."""
    return f"{number} {noun}{'s' * (number != 1)}"
