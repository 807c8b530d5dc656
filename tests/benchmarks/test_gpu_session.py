"""Timed calls of benchmarks/gpu_inference.py: model, batch size and precision."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from gpu_checks.budget import Budget
from gpu_checks.forms import Forms, forms_of
from gpu_checks.models import CheckedModel, Synthetic
from gpu_checks.onnx_runner import OnnxRunner
from gpu_checks.parity import LIMITS, Answers, Run
from gpu_checks.session import Findings, Plan, Runner, check
from gpu_checks.torch_runner import TorchRunner

SLOW_SECONDS, FAST_SECONDS = 0.004, 0.001
BATCHES = (1, 4, 300)  # more than there are samples, too


@pytest.fixture(scope="module")
def checked() -> CheckedModel:
    return Synthetic(name="convnet4-4-16", size=16, width=0.2).build()


@pytest.fixture(scope="module")
def forms(checked: CheckedModel) -> Forms:
    return forms_of(checked)


@pytest.fixture(autouse=True)
def _short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnserve.bench.timing._WARM_UP_SECONDS", 0.01)


class SlowAdaptive(TorchRunner):
    """Answers faster as the vanilla model than as the adaptive one; records its calls."""

    def __init__(self) -> None:
        super().__init__("cpu", (1,))
        self.adaptive: list[tuple[str, bool, tuple[int, ...]]] = []
        self.vanilla: list[tuple[str, bool, tuple[int, ...]]] = []

    @contextmanager
    def pair(self, checked: CheckedModel, forms: Forms, dtype: str, *, tf32: bool) -> Iterator[tuple[Run, Run]]:
        right = self.reference(checked, forms)

        def answer(inputs: np.ndarray) -> Answers:
            return {name: array[: len(inputs)] for name, array in right.items()}

        def adaptive(inputs: np.ndarray) -> Answers:
            self.adaptive.append((dtype, tf32, inputs.shape))
            time.sleep(SLOW_SECONDS)
            return answer(inputs)

        def vanilla(inputs: np.ndarray) -> Answers:
            self.vanilla.append((dtype, tf32, inputs.shape))
            time.sleep(FAST_SECONDS)
            return answer(inputs)

        yield adaptive, vanilla


def check_on(
    runner: Runner, checked: CheckedModel, *, dtypes: tuple[str, ...] = ("float32",), tf32: bool = False
) -> Findings:
    plan = Plan(dtypes=dtypes, batches=BATCHES, seconds=0.02, rounds=3, tf32=tf32)
    return check({checked.name: lambda: checked}, runner, plan, Budget(seconds=1e6), lambda message: None)


def test_a_slower_adaptive_model_has_a_ratio_above_one(checked: CheckedModel) -> None:
    for one in check_on(SlowAdaptive(), checked).ratios:
        assert one.ratio.median > 1
        assert one.adaptive.p50_ms > SLOW_SECONDS * 1e3 * 0.99
        assert one.adaptive.p50_ms > one.vanilla.p50_ms
        # Rows and not calls are counted.
        assert one.adaptive.images_per_second * one.adaptive.mean_ms / 1e3 == pytest.approx(one.batch, rel=0.5)


@pytest.mark.parametrize("tf32", [False, True])
def test_timed_calls_have_the_batch_size_and_precision_of_their_row(checked: CheckedModel, tf32: bool) -> None:
    runner = SlowAdaptive()
    found = check_on(runner, checked, dtypes=("float32", "float16"), tf32=tf32)
    wanted = [(dtype, batch) for dtype in ("float32", "float16") for batch in BATCHES]
    assert [(one.dtype, one.batch) for one in found.ratios] == wanted
    timed = [(dtype, tf32, (batch, *checked.samples.shape[1:])) for dtype, batch in wanted]
    assert list(dict.fromkeys(runner.vanilla)) == timed  # parity does not ask it
    assert set(timed) <= set(runner.adaptive)
    assert sum(shape[0] for _, on, shape in runner.adaptive if not on) >= 2 * len(checked.samples)  # parity: TF32 off


@pytest.mark.parametrize("runtime", ["torch", "onnxruntime"])
def test_float16_is_computed_in_float16(checked: CheckedModel, forms: Forms, runtime: str, tmp_path: Path) -> None:
    torch_runner, onnx_runner = TorchRunner("cpu", (8,)), OnnxRunner(tmp_path, "cpu", (8,), ("CPUExecutionProvider",))
    half: Runner = torch_runner if runtime == "torch" else onnx_runner
    inputs = checked.samples[:8]
    answers = []
    for runner, dtype in ((torch_runner, "float32"), (half, "float16")):
        with runner.pair(checked, forms, dtype, tf32=False) as (adaptive, vanilla):
            answers.append((adaptive(inputs), vanilla(inputs)))
    for exact, rounded in zip(*answers, strict=True):
        error = np.abs(rounded["probabilities"] - exact["probabilities"]).max()
        assert LIMITS["float32"] < error < LIMITS["float16"]  # more than float32 ever errs by
