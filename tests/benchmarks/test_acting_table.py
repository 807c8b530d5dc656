"""The table over sets, of comparisons that tell what adaptation does and of those from before they did."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def comparison(runs: Path, folder: Path) -> Path:
    """Write a comparison as versions before the record of adaptation did, of one run for both seeds."""
    variants = []
    for variant, name, p_value in (("vanilla", "vanilla", None), ("mn", "meta_neighborhoods", 0.01)):
        metrics = json.loads((runs / name / "metrics.json").read_text())
        score, unadapted = metrics["test"]["accuracy"], metrics["test"]["unadapted_accuracy"]
        run = {"name": name, "score": score, "unadapted": unadapted, "seconds": 7.0, "adaptation": None}
        difference = None if p_value is None else {"mean": 0.01, "std": 0.002, "p_value": p_value, "seeds": [0, 1]}
        variants.append(
            {"variant": variant, "mean": score, "std": 0.0, "unadapted_mean": unadapted, "difference": difference}
            | {"runs": [run, run]}
        )
    another = variants[1] | {"variant": "other", "difference": {"mean": 0.0, "std": 0.1, "p_value": 0.04}}
    written = {"recipe": "digits", "metric": "accuracy", "seeds": [0, 1], "baseline": "vanilla"}
    folder.mkdir()
    file = folder / "compare.json"
    file.write_text(json.dumps(written | {"variants": [*variants, another]}))
    return file


def test_what_adaptation_does_is_measured_anew_for_runs_that_tell_nothing(
    run_script: Callable[..., Any], runs: Path, tmp_path: Path
) -> None:
    file = comparison(runs, tmp_path / "compare-digits")
    known = run_script("acting_table", file)
    assert known.code == 0, known.stderr
    (line,) = [line for line in known.stdout.splitlines() if line.startswith("| digits | mn |")]
    assert line.count("|") == 14
    assert line.endswith("|  |  |  |  |  | 7 |")
    assert "| +1.00% ± 0.20% | 0.010 | 0.020 |" in line
    done = run_script("acting_table", file.parent, "--recompute", "--runs", runs, "--json", tmp_path / "table.json")
    assert done.code == 0, done.stderr
    vanilla, mn, other = json.loads((tmp_path / "table.json").read_text())
    assert (vanilla["adaptation"], mn["p_holm"], other["p_holm"]) == (None, 0.02, 0.04)
    record = json.loads((runs / "meta_neighborhoods" / "metrics.json").read_text())["adaptation"]
    found = mn["adaptation"]
    assert (found["corrected"], found["broken"]) == (record["corrected"], record["broken"])
    assert found["consistency"] == pytest.approx(record["consistency"]["share"])
    assert found["agreement"] == pytest.approx(record["agreement"]["share"])
    assert found["faithfulness"] == pytest.approx(record["faithfulness"]["named_size"], rel=1e-3)
    # One run stands for both seeds here.
    assert found["stability"]["share"] == 1
    assert 0 <= found["stability"]["chance"] < 1


def test_what_is_no_comparison_is_told_in_a_sentence(run_script: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "compare.json").write_text('{"metric": "shape"}')
    done = run_script("acting_table", tmp_path)
    assert done.code == 1
    assert "compare.json cannot be read as a comparison (its metric is 'shape')" in done.stderr
