"""Plan of a warm-up, and what it showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mnserve.codec.decoding import InferenceWork
from mnserve.execution.run_watch import RunWatch
from mnserve.models.joined_rows import JoinedRows
from mnserve.models.thread_choice.run_costs import RunCosts
from mnserve.models.trial_runs import TrialLimits


@dataclass(frozen=True, kw_only=True)
class WarmUpPlan:
    """What is to be run.

    Attributes:
        grow: Run batches up to ``max_batch_size``, since the configuration asks for it.
        sizes: The only batch sizes that the engine runs at; empty for any.
        limits: Bounds of time and memory.
        watch: Told of every run.
    """

    grow: bool
    sizes: Sequence[int] = ()
    limits: TrialLimits = field(default_factory=TrialLimits)
    watch: RunWatch = field(default_factory=RunWatch)


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """What a warm-up showed.

    Attributes:
        joined: Whether rows may share a batch.
        ran: The model answered something.
        probe: Makes a request that the model answered; None where there is none, or it is too large.
        text: What ran, or why nothing did, as a sentence.
        shapes: Shapes of the outputs of the first run, by name; empty where nothing ran.
        row_bytes: Memory that a row takes, roughly.
        costs: Times of its runs; None where it ran nothing but samples of its configuration.
    """

    joined: JoinedRows
    ran: bool
    probe: Callable[[], InferenceWork] | None
    text: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    row_bytes: float = 0.0
    costs: RunCosts | None = None
