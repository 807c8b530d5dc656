"""``mnserve bench`` with real engines in process: table, JSON, plot, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mnserve.bench import measure as measure_module
from mnserve.bench.machine import describe_machine
from mnserve.bench.settings import BenchSettings
from mnserve.bench.statistics import Slot
from mnserve.commands.bench import run
from mnserve.errors import BenchError, ModelNotFoundError, OutputError, RepositoryNotFoundError

QUICK = {"seconds": 0.02, "rounds": 4}


def bench(repository: Path, model: str = "a", **options: Any) -> int:
    return run(BenchSettings(repository=str(repository), model=model, **({**QUICK} | options)))


@pytest.fixture
def twins(colour_model: Callable[..., Path], repository: Path) -> Path:
    """A repository with the models ``a`` and ``b``, which take up to 4 images of 3x4x6."""
    colour_model("a", config='parameters { key: "mn.family" value { string_value: "vanilla" } }')
    colour_model("b")
    return repository


def test_json_holds_settings_machine_and_every_ratio(twins: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert bench(twins, against="b", batch="1,4", json=str(out)) == 0
    result = json.loads(out.read_text())
    assert result["schema"] == 1
    assert (result["settings"]["seconds"], result["settings"]["rounds"]) == (0.02, 4)
    assert result["machine"]["cpu"]
    assert result["machine"]["cores"] >= 1
    assert {"python", "onnxruntime", "numpy"} <= result["machine"]["versions"].keys()
    assert result["threads"] == 1
    assert result["path"] == "engine in process"
    assert result["model"]["name"] == "a"
    assert result["model"]["version"] == "1"
    assert result["model"]["file"] == "model.onnx"
    assert result["notes"][0] == "Timed: a/1/model.onnx and b/1/model.onnx."
    assert result["model"]["parameters"] == {"mn.family": "vanilla"}
    assert result["against"]["inputs"] == {"image": ["UINT8", [3, 4, 6]]}
    assert [one["batch"] for one in result["results"]] == [1, 4]
    for one in result["results"]:
        assert len(one["ratio"]["rounds"]) == 4
        spread = one["ratio"]["spread"]
        assert spread["low"] <= spread["q1"] <= spread["median"] <= spread["q3"] <= spread["high"]
        for side in ("model", "against"):
            assert 0 < one[side]["p50_ms"] <= one[side]["p99_ms"]
            assert one[side]["calls"] >= 4
            assert one[side]["images_per_second"] > 0


def test_the_ratio_is_model_over_against(
    twins: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(calls: list[Any], plan: Any, on_round: Callable[[int], None]) -> list[list[Slot]]:
        assert len(calls) == 2
        slow = [Slot(latencies_ms=(3.0 + step,), wall_s=0.01) for step in range(3)]
        fast = [Slot(latencies_ms=(2.0,), wall_s=0.005) for _ in range(3)]
        return [slow, fast]

    monkeypatch.setattr(measure_module, "interleave", known)
    assert bench(twins, against="b", rounds=3) == 0
    out = capsys.readouterr().out
    assert "latency of a against b" in out
    row = next(line.split() for line in out.splitlines() if line.split()[:2] == ["1", "a"])
    assert row == ["1", "a", "4.000", "4.980", "100", "2.00", "1.75–2.25", "1.50–2.50"]
    assert "3 rounds are odd" in out
    assert "p99 is close to the slowest call" in out


def test_one_model_alone_has_no_ratio(twins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result.json"
    assert bench(twins, json=str(out), plot=str(tmp_path / "a.png")) == 0
    text = capsys.readouterr().out
    assert "ratio" not in text
    assert "1 thread" in text
    (only,) = json.loads(out.read_text())["results"]
    assert only["against"] is None
    assert only["ratio"] is None
    with Image.open(tmp_path / "a.png") as image:
        assert image.width > 800


def test_standard_output_is_json_alone(twins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(twins, against="b", json="-") == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["results"]) == 1
    assert "latency of a against b" in err


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_plot_is_complete_and_alone(twins: Path, tmp_path: Path, ending: str) -> None:
    folder = tmp_path / "plots"
    folder.mkdir()
    assert bench(twins, against="b", batch="1,4", plot=str(folder / f"latency.{ending}")) == 0
    assert [path.name for path in folder.iterdir()] == [f"latency.{ending}"]
    content = (folder / f"latency.{ending}").read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert content.startswith(start)


def test_different_inputs_are_noted(
    colour_model: Callable[..., Path], twins: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    colour_model("c", datatype="FP32", dims=(3, 8, 8))
    assert bench(twins, against="c") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "different inputs (image UINT8 [3, 4, 6] for a and image FP32 [3, 8, 8] for c)" in text


def test_open_dimensions_take_a_shape(colour_model: Callable[..., Path], repository: Path, tmp_path: Path) -> None:
    colour_model("a", dims=(3, -1, -1))
    with pytest.raises(BenchError, match="choose sizes with --shape image:3,SIZE,SIZE"):
        bench(repository)
    with pytest.raises(BenchError, match="--shape names the input 'pixels', the inputs are image"):
        bench(repository, shape=["image:3,8,8", "pixels:1"])
    out = tmp_path / "result.json"
    assert bench(repository, shape=["image:3,8,9"], json=str(out)) == 0
    assert json.loads(out.read_text())["model"]["inputs"] == {"image": ["UINT8", [3, 8, 9]]}


def test_an_invalid_batch_size_is_refused_before_the_timing(twins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_module, "interleave", lambda *_, **__: pytest.fail("timed"))
    with pytest.raises(BenchError, match="batch 32 is more than model 'a' takes: max_batch_size is 4"):
        bench(twins, batch="1,32")


@pytest.mark.parametrize("option", ["json", "plot"])
def test_an_unwritable_result_is_refused_before_the_timing(
    twins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(measure_module, "interleave", lambda *_, **__: pytest.fail("timed"))
    with pytest.raises(OutputError, match=r"cannot write .*out\.png: the folder .*gone does not exist; make it first"):
        bench(twins, **{option: str(tmp_path / "gone" / "out.png")})
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        bench(twins, **{option: str(tmp_path / "folder.png")})


def test_unknown_models_and_repositories_are_refused(twins: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="has no model 'z'; it has a, b"):
        bench(twins, against="z")
    with pytest.raises(RepositoryNotFoundError, match="does not exist"):
        bench(tmp_path / "gone")


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, mnserve.bench.session, mnserve.predicting.session; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_machine_is_named_in_one_line() -> None:
    caption = describe_machine().caption
    assert "core" in caption
    assert "onnxruntime" in caption
    assert "\n" not in caption


def test_files_are_written_before_the_table(twins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("mnserve.bench.session.print_table", closed)
    with pytest.raises(BrokenPipeError):
        bench(twins, json=str(tmp_path / "a.json"), plot=str(tmp_path / "a.png"))
    assert {"a.json", "a.png"} <= {entry.name for entry in tmp_path.iterdir()}


def test_long_names_of_results_are_refused_before_the_timing(
    twins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_module, "interleave", lambda *_, **__: pytest.fail("timed"))
    with pytest.raises(OutputError, match="names of files have at most 255 bytes"):
        bench(twins, json=str(tmp_path / ("a" * 256)))
    with pytest.raises(OutputError, match="does not exist"):
        bench(twins, json=str(tmp_path / ("a" * 300) / "b"))


def test_a_file_is_timed_beside_a_model(twins: Path, colour_model: Callable[..., Path], tmp_path: Path) -> None:
    file = (colour_model("c") / "1" / "model.onnx").rename(tmp_path / "original.onnx")
    out = tmp_path / "result.json"
    assert bench(twins, against=str(file), batch="1,4", json=str(out)) == 0
    result = json.loads(out.read_text())
    assert (result["against"]["name"], result["against"]["file"]) == ("original.onnx", str(file))
    with pytest.raises(BenchError, match=r"there is no file .*missing"):
        bench(twins, against=str(tmp_path / "missing.onnx"))
