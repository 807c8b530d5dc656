"""`mnserve check`: the page, the JSON and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnserve.commands.cli import main
from mnserve.engines.providers import CUDA
from mnserve.engines.runtime import onnxruntime as ort


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["check", *words, "--json"])
    output = capsys.readouterr()
    assert output.err == ""
    return code, json.loads(output.out)


def test_without_a_repository_the_machine_alone_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    page = capsys.readouterr().out
    for words in (
        "versions   Python 3.",
        "onnxruntime",
        "CPUs ",
        "affinity mask",
        "memory ",
        "telemetry  off",
        "no fault",
    ):
        assert words in page
    assert "CPUExecutionProvider: starts" in page
    assert "models of" not in page
    code, report = checked(capsys)
    assert (code, report["models"], report["faults"]) == (0, [], [])
    assert report["surroundings"]["cpus"]["counted"] >= 1


def test_each_model_is_told_with_its_file_batching_and_warm_up(
    capsys: pytest.CaptureFixture[str], repository: Path, double_model: Callable[..., Path]
) -> None:
    double_model("alone", config="max_batch_size: 0")
    double_model("good")
    (repository / "lost+found").mkdir()
    code, report = checked(capsys, str(repository))
    assert (code, report["faults"], list(report["left_out"])) == (0, [], ["lost+found"])
    alone, good = report["models"]
    assert (good["name"], good["version"], good["file"], good["max_batch_size"]) == ("good", 1, "model.onnx", 32)
    assert alone["max_batch_size"] == 0
    assert all(model["batching"] and model["warm_up"] and not model["fault"] for model in (alone, good))
    assert all("1 thread" in model["threads"] for model in (alone, good)), "they are tiny"
    assert main(["check", str(repository)]) == 0
    page = capsys.readouterr().out
    assert "good version 1: model.onnx, batches of up to 32 rows" in page
    assert "alone version 1: model.onnx, one request at a time" in page
    assert good["batching"] in page
    assert "    threads    1 engine of 1 thread: " in page or "1 thread, as there is 1 CPU" in page
    assert "lost+found: left out" in page


def test_a_model_that_cannot_be_served_is_a_fault(
    capsys: pytest.CaptureFixture[str], repository: Path, double_model: Callable[..., Path]
) -> None:
    (double_model("broken") / "1" / "model.onnx").write_bytes(b"no model")
    double_model("good")
    code, report = checked(capsys, str(repository))
    broken, good = report["models"]
    assert code == 1
    assert "cannot load" in broken["fault"]
    assert good["fault"] == ""
    assert report["faults"] == [f"model 'broken': {broken['fault']}"]
    assert main(["check", str(repository)]) == 1
    assert "fault: model 'broken': ONNX Runtime cannot load" in capsys.readouterr().out


def test_warnings_of_a_server_stand_beside_their_model(
    capsys: pytest.CaptureFixture[str], double_model: Callable[..., Path], repository: Path
) -> None:
    double_model("odd", config='parameters { key: "unheard_of" value { string_value: "1" } }')
    _, report = checked(capsys, str(repository))
    assert any("unheard_of" in warning for warning in report["models"][0]["warnings"])


def test_an_empty_repository_is_a_fault_and_none_at_all_an_error(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    code, report = checked(capsys, str(repository))
    assert (code, len(report["faults"])) == (1, 1)
    assert main(["check", str(repository / "none")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_a_model_may_name_every_gpu_of_the_machine(
    capsys: pytest.CaptureFixture[str],
    double_model: Callable[..., Path],
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mnserve.checking.session.server_devices", lambda options: (0, 1))
    double_model("m", config="max_batch_size: 4 instance_group { gpus: [0, 1] }")
    double_model("other", config="max_batch_size: 4 instance_group { gpus: 2 }")
    words = ("--providers", "cuda", "cpu", "--allow-fallback", "--no-warm-up")
    _, report = checked(capsys, str(repository), *words)
    assert [model["fault"] for model in report["models"]] == ["", report["models"][1]["fault"]]
    assert "the server computes on GPU 0, 1" in report["models"][1]["fault"]


@pytest.mark.skipif(CUDA in ort.get_available_providers(), reason="this build has CUDA")
def test_a_provider_that_was_asked_for_and_is_missing_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = checked(capsys, "--providers", "cuda", "cpu")
    assert code == 1
    assert report["faults"][0].startswith(f"{CUDA} was asked for and does not start")
    assert checked(capsys, "--providers", "cuda", "cpu", "--allow-fallback")[0] == 0
    assert checked(capsys, "--providers", "cuda", "--allow-fallback")[0] == 1
    assert main(["check", "--providers", "cuda", "cuda", "--intra-op-threads", "-1"]) == 2
