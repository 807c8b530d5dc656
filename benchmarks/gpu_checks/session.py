"""The whole check: for every dtype and model parity first, then the ratio to vanilla at every batch size."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from gpu_checks.budget import Budget
from gpu_checks.forms import Forms, forms_of
from gpu_checks.parity import Answers, Parity, Run, answers, compare
from gpu_checks.subjects import Subject
from mnexport.errors import MnExportError
from mnserve.bench.statistics import Latency, Spread, latency, ratios, spread
from mnserve.bench.timing import TimingPlan, interleave
from mnserve.errors import MnServeError
from mntrain.errors import MnTrainError

# What a step takes beside what is measured, at a guess; no step is begun that would not end in time by it.
_MAKING, _PREPARING, _WARMING = 30.0, 20.0, 1.0


class Side(Protocol):
    """What runs the models."""

    label: str

    @property
    def mode(self) -> str:
        """How batches run when they are timed."""
        ...

    def reference(self, subject: Subject, forms: Forms) -> Answers:
        """The CPU's answers to the samples, in float32."""
        ...

    def pair(
        self, subject: Subject, forms: Forms, dtype: str, *, tf32: bool
    ) -> AbstractContextManager[tuple[Run, Run]]:
        """The adaptive and the vanilla model."""
        ...

    def further(
        self, subject: Subject, forms: Forms, dtype: str, budget: Budget
    ) -> AbstractContextManager[dict[str, Run]]:
        """Other engines, for parity alone."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Latency of the adaptive model over the vanilla one's; host to host, copies included.

    Args:
        model: name of it.
        form: static form of it.
        dtype: of the backbone.
        batch: rows of a call.
        ratio: over rounds.
        adaptive: of every call.
        vanilla: of every call.
    """

    model: str
    form: str
    dtype: str
    batch: int
    ratio: Spread
    adaptive: Latency
    vanilla: Latency


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured.

    Args:
        dtypes: of the backbones.
        batches: rows of a call.
        seconds: of each model at each batch size.
        rounds: each gives one ratio.
        tf32: whether float32 is timed with TF32; parity never uses it.
    """

    dtypes: tuple[str, ...]
    batches: tuple[int, ...]
    seconds: float
    rounds: int
    tf32: bool


@dataclass(kw_only=True)
class Findings:
    """What was found so far.

    Args:
        parities: in the order of the checks.
        ratios: in the order of the measurements.
        origins: model -> where it comes from.
    """

    parities: list[Parity] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values; times in milliseconds."""
        return {
            "models": self.origins,
            "parity": [asdict(item) | {"passed": item.passed} for item in self.parities],
            "ratios": [asdict(item) for item in self.ratios],
        }


Make = Callable[[], Subject]


def check(makes: dict[str, Make], side: Side, plan: Plan, budget: Budget, tell: Callable[[str], None]) -> Findings:
    """Checks and times every model; what does not work is written down, and the rest goes on.

    Args:
        makes: name of a model -> what makes it.
        side: runs them.
        plan: how much is measured.
        budget: of time.
        tell: told what is being done.
    """
    findings, ready = Findings(), {}
    for dtype in plan.dtypes:
        for name, make in makes.items():
            if dtype == plan.dtypes[0] and budget.allows(name, _MAKING):
                with _written_down(name, budget):
                    tell(f"{name}: making the static forms")
                    ready[name] = _Ready(make(), side)
                    findings.origins[name] = ready[name].subject.origin
            if name in ready and budget.allows(f"{name}, {dtype}", _PREPARING):
                with _written_down(f"{name}, {dtype}", budget):
                    _check_one(ready[name], dtype, plan, budget, (findings, tell))
    return findings


class _Ready:
    """A model with its forms and the CPU's answers."""

    def __init__(self, subject: Subject, side: Side) -> None:
        self.subject, self.side = subject, side
        self.forms = forms_of(subject)
        self.right = side.reference(subject, self.forms)


@contextlib.contextmanager
def _written_down(what: str, budget: Budget) -> Iterator[None]:
    """Errors of ours and of the libraries end one model, not the check."""
    try:
        yield
    except (MnExportError, MnTrainError, MnServeError) as error:
        budget.skip(what, str(error))
    except (RuntimeError, MemoryError) as error:  # PyTorch's and CUDA's
        lines = str(error).strip().splitlines() or [type(error).__name__]
        budget.skip(what, f"failed: {lines[0]}")


def _check_one(
    ready: _Ready, dtype: str, plan: Plan, budget: Budget, out: tuple[Findings, Callable[[str], None]]
) -> None:
    (findings, tell), subject, side, forms = out, ready.subject, ready.side, ready.forms
    if dtype != "float32" and not subject.is_classifier:
        budget.skip(f"{subject.name}, {dtype}", "a regressor adapts in all its layers and has no backbone to lower")
        return
    tell(f"{subject.name}, {dtype}: exporting, capturing")
    with side.pair(subject, forms, dtype, tf32=False) as (adaptive, vanilla):
        tell(f"{subject.name}, {dtype}: parity")
        with side.further(subject, forms, dtype, budget) as others:
            for engine, run in {f"{side.label}, {side.mode}": adaptive, **others}.items():
                with _written_down(f"{subject.name}, {dtype}, parity of {engine}", budget):
                    got = answers(run, subject.samples)
                    findings.parities.append(compare((subject.name, dtype, engine), got, ready.right, subject.unit))
        if not plan.tf32:
            findings.ratios += _timed(ready, dtype, plan, budget, (adaptive, vanilla, tell))
    if plan.tf32:
        with side.pair(subject, forms, dtype, tf32=True) as (adaptive, vanilla):
            findings.ratios += _timed(ready, dtype, plan, budget, (adaptive, vanilla, tell))


def _timed(
    ready: _Ready, dtype: str, plan: Plan, budget: Budget, runs: tuple[Run, Run, Callable[[str], None]]
) -> Iterator[Ratio]:
    adaptive, vanilla, tell = runs
    subject = ready.subject
    for batch in plan.batches:
        if not budget.allows(f"{subject.name}, {dtype}, ratio at batch {batch}", 2 * plan.seconds + _WARMING):
            continue
        tell(f"{subject.name}, {dtype}: timing batch {batch}")
        inputs = np.resize(subject.samples, (batch, *subject.samples.shape[1:]))
        timing = TimingPlan(seconds=plan.seconds, rounds=plan.rounds)
        slots = interleave([lambda: adaptive(inputs), lambda: vanilla(inputs)], timing)  # noqa: B023 (called at once)
        yield Ratio(
            model=subject.name,
            form=ready.forms.label,
            dtype=dtype,
            batch=batch,
            ratio=spread(ratios(*slots)),
            adaptive=latency(slots[0], batch),
            vanilla=latency(slots[1], batch),
        )


def all_passed(parities: Sequence[Parity]) -> bool:
    """Whether nothing differs by too much."""
    return all(item.passed for item in parities)
