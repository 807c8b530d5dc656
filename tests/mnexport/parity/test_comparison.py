"""Parity check: wrong answers of every kind fail, and all failures are reported at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnexport.errors import GraphError, ParityError, UsageError
from mnexport.parity.checks import ParityCheck
from mnexport.parity.comparison import compare
from mnexport.parity.report import ParityReport
from mnexport.parity.runners import Examples, Runner, onnxruntime_runner
from mnexport.parity.tolerance import Allowance, Answers, Approximation, Tolerance
from mnexport.signature import image_signature
from mntrain.artifact_config import InputSpec

SIGNATURE = image_signature(InputSpec(channels=1, height=4, width=4), tuple("abc"))
IMAGES = np.random.default_rng(0).integers(0, 256, (70, 1, 4, 4), dtype=np.uint8)


def answer(images: Examples) -> Answers:
    logits = images.reshape(len(images), -1)[:, :3].astype(np.float32) / 100
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return answers(logits, shifted / shifted.sum(axis=1, keepdims=True))


def answers(logits: Any, probabilities: Any) -> Answers:
    return {"logits": logits, "probabilities": probabilities}


def both(images: Examples) -> tuple[Any, Any]:
    found = answer(images)
    return found["logits"], found["probabilities"]


def check(candidate: Runner, tolerance: Allowance, expected: Runner, what: str = "candidate") -> ParityCheck:
    return ParityCheck(what=what, runner=candidate, reference="answer", expected=expected, tolerance=tolerance)


def report(candidate: Runner, **tolerance: Any) -> ParityReport:
    return compare([check(candidate, Tolerance(**tolerance), answer)], IMAGES, large_batch=64, source="test")


def changed(change: Any) -> Runner:
    def run(images: Examples) -> Answers:
        logits, probabilities = both(images)
        return answers(change(logits, images), probabilities)

    return run


def test_an_equal_export_passes_at_batch_1_2_and_a_large_one() -> None:
    found = report(answer)
    assert [(item.batch, item.examples) for item in found.comparisons] == [(1, 64), (2, 64), (64, 70)]
    found.raise_failures()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a shift", lambda logits, images: logits + 1e-3),
        (
            "one wrong value",
            lambda logits, images: logits + (images.reshape(len(images), -1)[:, :1] == IMAGES[5, 0, 0, 0]),
        ),
        ("a constant from the example", lambda logits, images: np.repeat(both(IMAGES[:1])[0], len(images), 0)),
        ("rows swapped in a batch", lambda logits, images: logits[::-1]),
        ("a baked-in batch size", lambda logits, images: logits if len(images) == 64 else logits * 0),
    ],
)
def test_a_wrong_export_fails(name: str, change: Any) -> None:
    with pytest.raises(ParityError, match="Nothing was published"):
        report(changed(change)).raise_failures()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_beyond_any_tolerance(value: float) -> None:
    def run(images: Examples) -> Answers:
        logits, probabilities = both(images)
        logits[0, logits[0].argmin()] = value
        return answers(logits, probabilities)

    found = compare([check(run, Tolerance(atol=1e6), answer)], IMAGES[:1], large_batch=4, source="test")
    assert [item.beyond_tolerance for item in found.comparisons] == [1, 1, 1]
    assert not any(item.passed for item in found.comparisons)


def test_a_nan_fails_where_the_class_is_right() -> None:
    def nan_everywhere(images: Examples) -> Answers:
        logits, probabilities = both(images)
        return answers(np.full_like(logits, np.nan), probabilities)

    def first_class(images: Examples) -> Answers:
        logits, probabilities = both(images)
        logits[:, 0] = 1000
        return answers(logits, probabilities)

    found = compare([check(nan_everywhere, Tolerance(), first_class)], IMAGES, large_batch=64, source="test")
    assert [item.argmax_differences for item in found.comparisons] == [0, 0, 0], "arg-max of NaNs is 0, which is right"
    with pytest.raises(ParityError, match="Nothing was published"):
        found.raise_failures()


def test_answers_that_are_not_finite_are_called_so_and_no_tolerance_is_recommended() -> None:
    spoiled = report(changed(lambda logits, images: logits * np.nan))
    with pytest.raises(ParityError) as caught:
        spoiled.raise_failures()
    message = str(caught.value)
    assert "largest errors: logits not finite, probabilities 0)" in message
    assert "no tolerance allows answers that are not finite" in message
    assert "looser" not in message


@pytest.mark.parametrize("change", [lambda p: np.full_like(p, np.nan), lambda p: p + 0.01, lambda p: p[:, ::-1]])
def test_wrong_probabilities_fail_although_the_logits_are_right(change: Any) -> None:
    def run(images: Examples) -> Answers:
        logits, probabilities = both(images)
        return answers(logits, change(probabilities))

    with pytest.raises(ParityError, match="0 of 70 examples with another class"):
        report(run).raise_failures()


def test_a_file_that_onnxruntime_does_not_load_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"no model")
    with pytest.raises(GraphError, match="does not load"):
        onnxruntime_runner(file, SIGNATURE)


def test_the_same_class_is_demanded_even_within_the_tolerance() -> None:
    def nearly(images: Examples) -> Answers:
        logits, probabilities = both(images)
        top = logits.argmax(axis=1)
        logits[np.arange(len(logits)), (top + 1) % 3] = logits.max(axis=1) + 1e-3
        return answers(logits, probabilities)

    with pytest.raises(ParityError, match="with another class"):
        report(nearly, atol=100).raise_failures()


def test_every_failure_is_reported_at_once() -> None:
    checks = [
        check(changed(lambda logits, images: logits + 1), Tolerance(), answer, "one"),
        check(changed(lambda logits, images: logits + 2), Tolerance(), answer, "two"),
    ]
    found = compare(checks, IMAGES, large_batch=64, source="test")
    with pytest.raises(ParityError) as caught:
        found.raise_failures()
    for words in ("one at batch 1:", "one at batch 64:", "two at batch 1:", "two at batch 64:"):
        assert words in str(caught.value)


def test_the_relative_tolerance_hides_no_more_than_rounding() -> None:
    scaled = changed(lambda logits, images: logits * (1 + 1e-4))
    with pytest.raises(ParityError):
        report(scaled, atol=1e-6).raise_failures()
    report(scaled, atol=1e-6, rtol=2e-4).raise_failures()


@pytest.mark.parametrize(
    "tolerance",
    [{"atol": -1.0}, {"atol": 0.0}]
    + [{name: float(value)} for name in ("atol", "rtol") for value in ("nan", "inf", "-inf")],
)
def test_an_impossible_tolerance_is_refused(tolerance: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="finite"):
        Tolerance(**tolerance)  # type: ignore[arg-type]


def approximate(probabilities: Any) -> ParityReport:
    def run(images: Examples) -> Answers:
        logits, right = both(images)
        return answers(logits + 0.5, probabilities(right))

    return compare([check(run, Approximation(limit=1e-3), answer)], IMAGES, large_batch=64, source="test")


def test_an_approximation_is_held_to_its_probabilities_alone() -> None:
    approximate(lambda right: right + 9e-4).raise_failures()
    for wrong in (lambda right: right + 2e-3, lambda right: right * np.nan):
        with pytest.raises(ParityError, match=r"beyond 0\.001 on probabilities of the answer"):
            approximate(wrong).raise_failures()


def test_an_approximation_may_not_swap_classes_that_are_well_apart() -> None:
    def tie(images: Examples) -> Answers:
        probabilities = np.tile(np.array([[0.4005, 0.4, 0.1995]], np.float32), (len(images), 1))
        return answers(np.log(probabilities), probabilities)

    def swapped(images: Examples) -> Answers:
        logits, probabilities = tie(images).values()
        return answers(logits[:, [1, 0, 2]], probabilities[:, [1, 0, 2]])

    def third(images: Examples) -> Answers:
        logits, probabilities = tie(images).values()
        return answers(logits[:, [2, 1, 0]], probabilities[:, [2, 1, 0]])

    within = Approximation(limit=1e-3)
    compare([check(swapped, within, tie)], IMAGES, large_batch=64, source="test").raise_failures()
    found = compare([check(third, within, tie)], IMAGES, large_batch=64, source="test")
    assert [item.argmax_differences for item in found.comparisons] == [64, 64, 70]


@pytest.mark.parametrize(("lead", "different"), [(1.9e-3, 0), (2.1e-3, 1), (float("nan"), 1)])
def test_an_approximation_may_swap_classes_within_twice_its_tolerance(lead: float, different: int) -> None:
    right = {"probabilities": np.array([[0.5 + lead, 0.5, 0.0]])}
    swapped = {"logits": np.zeros((1, 3)), "probabilities": np.array([[0.4, 0.6, 0.0]])}
    assert Approximation(limit=1e-3).other_classes(swapped, right) == different
    assert Approximation(limit=1e-3).other_classes({"value": np.zeros((1, 1))}, {"value": np.ones((1, 1))}) == 0


def values(change: Any, tolerance: Allowance) -> ParityReport:
    def right(rows: Examples) -> Answers:
        return {"value": rows[:, :1] * 100}

    def run(rows: Examples) -> Answers:
        return {"value": change(right(rows)["value"])}

    rows = np.random.default_rng(1).normal(size=(70, 2)).astype(np.float32)
    return compare([check(run, tolerance, right)], rows, large_batch=64, source="test")


@pytest.mark.parametrize("tolerance", [Tolerance(atol=1e-3, unit=100.0), Approximation(limit=1e-3, unit=100.0)])
def test_values_are_measured_in_deviations_of_the_target(tolerance: Allowance) -> None:
    values(lambda value: value + 0.09, tolerance).raise_failures()
    for wrong in (lambda value: value + 0.11, lambda value: value * np.nan):
        with pytest.raises(ParityError, match="Nothing was published"):
            values(wrong, tolerance).raise_failures()


@pytest.mark.parametrize(
    ("lead", "atol", "different"),
    [
        (1e-5, 1e-4, 0),
        (1e-2, 1e-4, 1),
        (1e-2, 10.0, 1),
        (1e-5, 1e-9, 1),
        # Twice the tolerance, and no more.
        (1.9e-5, 1e-5, 0),
        (2.1e-5, 1e-5, 1),
        # 2e-4, and no more.
        (1.9e-4, 10.0, 0),
        (2.1e-4, 10.0, 1),
    ],
)
def test_only_classes_that_rounding_cannot_tell_apart_may_be_swapped(lead: float, atol: float, different: int) -> None:
    """The limit holds however loose the tolerance of the logits is, and never beyond that tolerance."""
    right = {"logits": np.array([[1.0 + lead, 1.0, 0.0]])}
    got = {"logits": np.array([[1.0, 1.0 + lead / 10, 0.0]])}
    assert Tolerance(atol=atol, rtol=0).other_classes(got, right) == different
    large = {"logits": right["logits"] * 1e4}, {"logits": got["logits"] * 1e4}
    assert Tolerance(atol=atol * 1e4, rtol=0).other_classes(large[1], large[0]) == int(lead > min(2 * atol, 2e-5))


def test_a_logit_that_is_not_finite_is_beyond_an_approximation_too() -> None:
    error = {"logits": np.array([[np.inf, 0.0]]), "probabilities": np.zeros((1, 2))}
    assert Approximation(limit=0.1).beyond(error, {}) == 1
    assert Approximation(limit=0.1).beyond(error | {"logits": np.array([[1e3, 0.0]])}, {}) == 0
