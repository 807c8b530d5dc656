"""Files that version 0.1.0 wrote are read, served and gone on with (``data/README.md`` says how they were made)."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from measuring import ANSWERED, DATA
from PIL import Image
from safetensors.numpy import load_file

from mnserve.commands.cli import main as mnserve
from mntrain.artifact import load_artifact
from mntrain.commands.cli import main as mntrain

ANSWERS: dict[str, dict[str, Any]] = json.loads((DATA / "answers.json").read_text(encoding="utf-8"))
IMAGES = load_file(str(DATA / "artifacts" / "meta_neighborhoods" / "samples.safetensors"))["images"][:ANSWERED]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of a run that has one epoch behind it."""
    return Path(shutil.copytree(DATA / "started", tmp_path / "runs" / "started"))


@pytest.mark.parametrize("name", ANSWERS["artifacts"])
def test_an_old_artifact_predicts_what_it_predicted(name: str) -> None:
    artifact: Any = load_artifact(DATA / "artifacts" / name)
    with torch.inference_mode():
        prediction = artifact.model(artifact.preprocessing(torch.from_numpy(artifact.samples.inputs[:ANSWERED])))
    np.testing.assert_allclose(prediction[0].numpy(), ANSWERS["artifacts"][name], atol=1e-5, rtol=1e-5)


def test_an_old_repository_is_served_as_it_was(serve: Callable[[Path], str], tmp_path: Path) -> None:
    address = serve(Path(shutil.copytree(DATA / "repository", tmp_path / "repository")))
    with triton.InferenceServerClient(address) as client:
        for model, outputs in ANSWERS["repository"].items():
            tensor = triton.InferInput("image", list(IMAGES.shape), "UINT8")
            tensor.set_data_from_numpy(IMAGES)
            answer = client.infer(model, [tensor], outputs=[triton.InferRequestedOutput(name) for name in outputs])
            for name, values in outputs.items():
                np.testing.assert_allclose(answer.as_numpy(name), values, atol=1e-5, rtol=1e-5, err_msg=name)
            assert [output.name for output in client.infer(model, [tensor]).get_response().outputs] == [
                "logits",
                "probabilities",
            ]


def test_an_old_model_explains_with_its_training_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(DATA / "repository", tmp_path / "repository") / "digits-mn"
    Image.fromarray(IMAGES[0, 0]).save(tmp_path / "digit.png")
    page = tmp_path / "page.html"
    assert mnserve(["predict", str(folder), str(tmp_path / "digit.png"), "--explain", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    expected = ANSWERS["explanation"]
    assert (answer["label"], answer["probability"]) == (expected["label"], pytest.approx(expected["probability"], 1e-5))
    found = answer["explanation"]["neighbors"]
    assert len(found) == 3
    for neighbor, recorded in zip(found, expected["explanation"]["neighbors"], strict=True):
        assert neighbor == recorded | {"weight": pytest.approx(recorded["weight"], 1e-4)}
    assert mnserve(["predict", str(folder), str(tmp_path / "digit.png"), "--explain", "--html", str(page)]) == 0
    assert page.read_text(encoding="utf-8").count("data:image/png") == 1 + 3 * 2


def test_an_old_run_goes_on_after_its_last_epoch(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _rows(run)
    words = ["--runs", str(run.parent), "--resume", "--training.epochs", "2", "--json"]
    assert mntrain(["fit", str(run / "config.yaml"), *words]) == 2
    assert "training.last_batch ('drop' → 'train')" in capsys.readouterr().err, "it left out what filled no batch"
    assert mntrain(["fit", str(run / "config.yaml"), *words, "--training.last_batch", "drop"]) == 0
    result, rows = json.loads(capsys.readouterr().out), _rows(run)
    assert (result["epochs"], len(before), len(rows)) == (2, 1, 2)
    assert rows[0] == before[0]
    # Version 0.1.0 came to this loss after both epochs. Entries are dropped by other draws now, so it is only near.
    assert float(rows[1]["train_loss"]) == pytest.approx(4.37667, rel=0.05)
    assert load_artifact(run / "artifact").config.metrics == result


def test_an_old_run_is_evaluated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mntrain(["evaluate", str(run / "artifact"), "--json"]) == 0
    found, recorded = json.loads(capsys.readouterr().out), json.loads((run / "metrics.json").read_text())["test"]
    assert found["examples"] == recorded["examples"] == 27
    assert found["loss"] == pytest.approx(recorded["loss"], rel=1e-5)


def test_an_old_run_is_reported_on(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mntrain(["report", str(run), "--json"]) == 0
    numbers, recorded = json.loads(capsys.readouterr().out), ANSWERS["report"]
    assert sorted(numbers) == sorted([*recorded["sections"], "acting"]), "what adaptation does is told of old runs, too"
    assert numbers["curves"] == {"epochs": 1, "best_epoch": 1}
    assert numbers["run"]["test"] == pytest.approx(recorded["test"], rel=1e-5)
    for number in ("effective_median", "effective_mean", "largest_weight_mean"):
        assert numbers["usage"][number] == pytest.approx(recorded["usage"][number], rel=1e-4)
    assert "<svg" in (run / "report.html").read_text(encoding="utf-8")


def _rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
