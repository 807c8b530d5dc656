"""Comparison of joined rows: models are what they say, and mixed answers are counted."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joined_rows import Result
from joining.callers import Load, call_at_once
from joining.forms import FORMS
from joining.models import EXAMPLES
from onnx_suite.raw import RawSession

from mnserve.bench.server_process import server_process


def joins(session: RawSession, first: list[Any], second: list[Any]) -> bool:
    """Whether two requests have the answers that they have alone, when they share a run."""
    alone = [session.run(first), session.run(second)]
    joined = session.run([np.concatenate(arrays) for arrays in zip(first, second, strict=True)])
    return all(
        len(one) == len(other) == len(first[0])
        and both.shape == (2 * len(one), *one.shape[1:])
        and np.allclose(both, np.concatenate([one, other]), atol=1e-5)
        for one, other, both in zip(*alone, joined, strict=True)
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_are_independent_where_an_example_says_so(name: str) -> None:
    example = EXAMPLES[name]
    session = RawSession(example.model())
    feeds = [example.inputs(np.random.default_rng(seed), 4) for seed in range(20)]
    first, *others = [[inputs[tensor.name] for tensor in session.inputs] for inputs in feeds]
    shapes = [array.shape for array in first]
    partners = [values for values in others if [array.shape for array in values] == shapes]
    assert partners
    assert all(joins(session, first, second) for second in partners) is example.independent


def test_wrong_answers_and_refusals_are_counted(tmp_path: Path) -> None:
    example, other = EXAMPLES["position"], EXAMPLES["gram"]
    for form, name, model in zip(FORMS[1:3], ("other", "right"), (other, example), strict=True):
        form.write(tmp_path, name, model.model())
    load = Load(callers=2, calls=5)
    with server_process(tmp_path, ["--log-level", "error"]) as address:
        assert call_at_once(address, "right", example, load) == {"right": 10}
        assert call_at_once(address, "other", example, load) == {"wrong": 10}
        refused = call_at_once(address, "gone", example, load)
    assert sum(refused.values()) == 10
    assert not {"right", "wrong"} & set(refused)


def test_faults_are_wrong_answers_and_rows_kept_apart_for_nothing() -> None:
    def result(model: str, form: str, rows: int, **outcomes: int) -> Result:
        return Result(model=model, form=form, max_batch_size=rows, outcomes=Counter(outcomes))

    assert not result("cumsum", "none", 0, right=3).fault
    assert result("cumsum", "none", 32, right=3, wrong=1).fault
    assert result("independent", "none", 0, right=3).fault
    assert not result("independent", "file", 0, right=3).fault
    assert not result("independent", "none", 32, right=3).fault
