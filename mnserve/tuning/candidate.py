"""Candidate configurations of a tuning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Settings of a model that a tuning chooses."""

    max_batch_size: int
    """Most rows in a batch; 0 for a model without a batch dimension."""
    delay_us: int
    """Microseconds that a request may wait for others while an instance is idle."""
    instances: int
    """Engines side by side."""
    threads: int
    """Threads of each instance within one operator."""

    @property
    def simplicity(self) -> tuple[int, int, int]:
        """Sort key, the simplest first: instances, then threads of all instances, then the delay."""
        return self.instances, self.instances * self.threads, self.delay_us

    @property
    def label(self) -> str:
        """Description of the candidate."""
        engines = f"{counted(self.instances, 'instance')} of {counted(self.threads, 'thread')}"
        if not self.max_batch_size:
            return engines
        return f"batches of up to {self.max_batch_size}, delay {self.delay_us / 1e3:g} ms, {engines}"


def counted(number: int, noun: str) -> str:
    """Joins a number and its noun, with a plural s."""
    return f"{number} {noun}{'s' * (number != 1)}"
