"""Destinations of results, and places that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnserve.bench.report import Report
from mnserve.bench.session import bench
from mnserve.bench.settings import BenchSettings
from mnserve.errors import OutputError
from mnserve.tuning.session import tune
from mnserve.tuning.settings import TuneSettings


def test_a_plot_does_not_take_the_place_of_the_json(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    file = str(tmp_path / "x.svg")
    for other in (file, str(tmp_path / "link" / "x.svg")):
        with pytest.raises(OutputError, match=r"--json .*x\.svg and --plot .* the same file, .*; give them two names"):
            Report.to(file, other)
    assert Report.to(file, str(tmp_path / "y.svg")).json_file == Path(file)
    assert Report.to("-", file).plot_file == Path(file)


@pytest.mark.parametrize("option", ["json", "plot"])
@pytest.mark.parametrize("name", ["config.svg", "1/model.svg"])
def test_no_result_takes_the_place_of_a_file_of_a_model(tmp_path: Path, option: str, name: str) -> None:
    for model in ("a", "b"):
        (tmp_path / model / "1").mkdir(parents=True)
    repository = str(tmp_path)

    def given(model: str) -> dict[str, str]:
        return {option: str(tmp_path / model / name)}

    words = "it lies in the model's folder .*; choose another place"
    with pytest.raises(OutputError, match=words):
        tune(TuneSettings(repository=repository, model="a", latency_ms=1.0, dry_run=True, **given("a")))
    for model in ("a", "b"):
        with pytest.raises(OutputError, match=words):
            bench(BenchSettings(repository=repository, model="a", against="b", **given(model)))
