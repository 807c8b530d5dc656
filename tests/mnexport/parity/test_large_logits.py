"""Large logits are judged by the digits that float32 has; errors that anyone would see are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mnexport.errors import ParityError
from mnexport.forms.heads import StaticCosineHead
from mnexport.options import ExportOptions
from mnexport.parity.tolerance import Answers, Tolerance
from mnexport.pipeline import export
from mnexport.repository.target import Target


@pytest.fixture(scope="module")
def confident(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact whose logits are about 10,000."""
    artifact = Path(shutil.copytree(runs / "vanilla" / "artifact", tmp_path_factory.mktemp("confident") / "artifact"))
    weights = load_file(artifact / "model.safetensors")
    weights["head.scale"] = np.array(weights["head.scale"] * 1000, np.float32)
    save_file(weights, artifact / "model.safetensors")
    return artifact


def options(artifact: Path, folder: Path, **changes: Any) -> ExportOptions:
    return ExportOptions(artifact=artifact, target=Target(repository=folder, name="m"), **changes)


def test_a_model_of_large_logits_is_exported(confident: Path, tmp_path: Path) -> None:
    export(options(confident, tmp_path / "repository"))
    report = json.loads((tmp_path / "repository/m/1/export.json").read_text())
    errors = [item["max_error"] for item in report["parity"]["comparisons"]]
    assert max(item["logits"] for item in errors) > 1e-4, "an absolute tolerance alone would refuse it"
    assert max(item["probabilities"] for item in errors) <= 1e-4
    with pytest.raises(ParityError, match="Nothing was published"):
        export(options(confident, tmp_path / "absolute", parity_tolerance=Tolerance(rtol=0)))


@pytest.mark.parametrize("share", [1e-4, -1e-2])
def test_a_real_error_in_large_logits_is_refused(
    confident: Path, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every class stays the same, and so does nearly every probability."""
    right = StaticCosineHead.forward
    monkeypatch.setattr(StaticCosineHead, "forward", lambda self, features: right(self, features) * (1 + share))
    with pytest.raises(ParityError, match=r"values beyond atol 0\.0001, rtol 1e-05 of logits of the trained model"):
        export(options(confident, tmp_path / "repository"))


def judged(logits: Any, expected: Any) -> int:
    def softmax(values: Any) -> Any:
        shares = np.exp(values - values.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    found: Answers = {"logits": np.array(logits), "probabilities": softmax(np.array(logits))}
    right: Answers = {"logits": np.array(expected), "probabilities": softmax(np.array(expected))}
    error = {name: np.abs(found[name] - right[name]) for name in found}
    return Tolerance().beyond(error, right)


def test_a_small_logit_is_as_uncertain_as_the_largest_of_its_row() -> None:
    assert judged([[1e4, 0.05, -9e3]], [[1e4, 0.0, -9e3]]) == 0
    assert judged([[10.0, 0.05, -9.0]], [[10.0, 0.0, -9.0]]) == 1


def test_a_probability_that_differs_is_refused_within_the_relative_tolerance_of_logits() -> None:
    assert judged([[1e4 + 0.05, 1e4, 0.0]], [[1e4, 1e4, 0.0]]) == 2


def test_values_may_differ_by_their_rounding_and_by_no_share_of_their_size() -> None:
    def beyond(difference: float, value: float) -> int:
        return Tolerance(unit=1.0).beyond({"value": np.array([[difference]])}, {"value": np.array([[value]])})

    assert np.spacing(np.float32(1e5)) > 1e-4
    assert beyond(0.0078125, 1e5) == 0
    assert beyond(0.02, 1e5) == 1
    assert beyond(2e-4, 10.0) == 1
