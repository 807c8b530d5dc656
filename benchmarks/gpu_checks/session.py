"""Check all models: for every dtype and model parity first, then the ratio to vanilla at every batch size."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from gpu_checks.budget import Budget
from gpu_checks.forms import Forms, forms_of
from gpu_checks.models import CheckedModel
from gpu_checks.parity import Answers, Parity, Run, answers, compare
from mnexport.errors import MnExportError
from mnserve.bench.statistics import Latency, Spread, latency, ratios, spread
from mnserve.bench.timing import TimingPlan, interleave
from mnserve.errors import MnServeError
from mntrain.errors import MnTrainError

# Estimated seconds of a step beside the measurement; no step is begun that would not end in time.
_MAKING, _PREPARING, _WARMING = 30.0, 20.0, 1.0


class Runner(Protocol):
    """Runner of models on one runtime."""

    label: str

    @property
    def mode(self) -> str:
        """Description of the way in which batches run."""
        ...

    def reference(self, checked: CheckedModel, forms: Forms) -> Answers:
        """Compute the CPU's answers to the samples, in float32."""
        ...

    def pair(
        self, checked: CheckedModel, forms: Forms, dtype: str, *, tf32: bool
    ) -> AbstractContextManager[tuple[Run, Run]]:
        """Open the adaptive and the vanilla model."""
        ...

    def further(
        self, checked: CheckedModel, forms: Forms, dtype: str, budget: Budget
    ) -> AbstractContextManager[dict[str, Run]]:
        """Open further engines, for parity alone."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Latency of the adaptive model over that of the vanilla model; host to host, copies included.

    Args:
        model: name of the model.
        form: static form of the model.
        dtype: dtype of the backbone.
        batch: rows of a call.
        ratio: ratio over rounds.
        adaptive: latency of the adaptive model over all calls.
        vanilla: latency of the vanilla model over all calls.
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
    """Extent of the measurements.

    Args:
        dtypes: dtypes of the backbones.
        batches: rows of a call.
        seconds: measured time of each model at each batch size.
        rounds: number of rounds; each gives one ratio.
        tf32: True times float32 with TF32; parity never uses it.
    """

    dtypes: tuple[str, ...]
    batches: tuple[int, ...]
    seconds: float
    rounds: int
    tf32: bool


@dataclass(kw_only=True)
class Findings:
    """Results of all checks and measurements.

    Args:
        parities: parity of every engine, in the order of the checks.
        ratios: ratios, in the order of the measurements.
        origins: model -> description of its origin.
    """

    parities: list[Parity] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; times are in milliseconds."""
        return {
            "models": self.origins,
            "parity": [asdict(item) | {"passed": item.passed} for item in self.parities],
            "ratios": [asdict(item) for item in self.ratios],
        }


MakeModel = Callable[[], CheckedModel]


def check(
    makes: dict[str, MakeModel], runner: Runner, plan: Plan, budget: Budget, on_progress: Callable[[str], None]
) -> Findings:
    """Check and time every model; failures are recorded, and the other models go on.

    Args:
        makes: name of a model -> function that makes it.
        runner: runs the models.
        plan: extent of the measurements.
        budget: time budget.
        on_progress: receives a description of each step.
    """
    findings, ready = Findings(), {}
    for dtype in plan.dtypes:
        for name, make in makes.items():
            if dtype == plan.dtypes[0] and budget.allows(name, _MAKING):
                with _record_failure(name, budget):
                    on_progress(f"{name}: making the static forms")
                    ready[name] = _Ready(make(), runner)
                    findings.origins[name] = ready[name].checked.origin
            if name in ready and budget.allows(f"{name}, {dtype}", _PREPARING):
                with _record_failure(f"{name}, {dtype}", budget):
                    _check_one(ready[name], dtype, plan, budget, (findings, on_progress))
    return findings


class _Ready:
    """Model with its forms and the CPU's answers."""

    def __init__(self, checked: CheckedModel, runner: Runner) -> None:
        self.checked, self.runner = checked, runner
        self.forms = forms_of(checked)
        self.right = runner.reference(checked, self.forms)


@contextlib.contextmanager
def _record_failure(what: str, budget: Budget) -> Iterator[None]:
    """Record errors of ours and of the libraries as work that was left out."""
    try:
        yield
    except (MnExportError, MnTrainError, MnServeError) as error:
        budget.skip(what, str(error))
    except (RuntimeError, MemoryError) as error:  # errors of PyTorch and CUDA
        lines = str(error).strip().splitlines() or [type(error).__name__]
        budget.skip(what, f"failed: {lines[0]}")


def _check_one(
    ready: _Ready, dtype: str, plan: Plan, budget: Budget, out: tuple[Findings, Callable[[str], None]]
) -> None:
    (findings, on_progress), checked, runner, forms = out, ready.checked, ready.runner, ready.forms
    if dtype != "float32" and not checked.is_classifier:
        budget.skip(f"{checked.name}, {dtype}", "a regressor adapts in all its layers and has no backbone to lower")
        return
    on_progress(f"{checked.name}, {dtype}: exporting, capturing")
    with runner.pair(checked, forms, dtype, tf32=False) as (adaptive, vanilla):
        on_progress(f"{checked.name}, {dtype}: parity")
        with runner.further(checked, forms, dtype, budget) as others:
            for engine, run in {f"{runner.label}, {runner.mode}": adaptive, **others}.items():
                with _record_failure(f"{checked.name}, {dtype}, parity of {engine}", budget):
                    got = answers(run, checked.samples)
                    findings.parities.append(compare((checked.name, dtype, engine), got, ready.right, checked.unit))
        if not plan.tf32:
            findings.ratios += _timed(ready, dtype, plan, budget, (adaptive, vanilla, on_progress))
    if plan.tf32:
        with runner.pair(checked, forms, dtype, tf32=True) as (adaptive, vanilla):
            findings.ratios += _timed(ready, dtype, plan, budget, (adaptive, vanilla, on_progress))


def _timed(
    ready: _Ready, dtype: str, plan: Plan, budget: Budget, runs: tuple[Run, Run, Callable[[str], None]]
) -> Iterator[Ratio]:
    adaptive, vanilla, on_progress = runs
    checked = ready.checked
    for batch in plan.batches:
        if not budget.allows(f"{checked.name}, {dtype}, ratio at batch {batch}", 2 * plan.seconds + _WARMING):
            continue
        on_progress(f"{checked.name}, {dtype}: timing batch {batch}")
        inputs = np.resize(checked.samples, (batch, *checked.samples.shape[1:]))
        timing = TimingPlan(seconds=plan.seconds, rounds=plan.rounds)
        slots = interleave([lambda: adaptive(inputs), lambda: vanilla(inputs)], timing)  # noqa: B023 (called at once)
        yield Ratio(
            model=checked.name,
            form=ready.forms.label,
            dtype=dtype,
            batch=batch,
            ratio=spread(ratios(*slots)),
            adaptive=latency(slots[0], batch),
            vanilla=latency(slots[1], batch),
        )


def all_passed(parities: Sequence[Parity]) -> bool:
    """Tell if no engine differs by more than the limit."""
    return all(item.passed for item in parities)
