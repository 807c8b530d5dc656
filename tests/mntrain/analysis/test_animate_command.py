"""`mntrain animate`: a frame for every kept epoch, and sentences for what cannot be shown."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mntrain.analysis.animation import draw_frame
from mntrain.analysis.trajectory import Observer, kept_epochs
from mntrain.cli import main

WORDS = [
    "--data.rows",
    "120",
    "--training.epochs",
    "3",
    "--training.keep_every",
    "1",
    "--meta_neighborhoods.entries",
    "12",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of two runs on spirals: ``adaptive``, and ``linear`` without a dictionary."""
    runs = tmp_path_factory.mktemp("runs")
    for family, name in (("meta_neighborhoods", "adaptive"), ("vanilla", "linear")):
        words = ["--family", family, "--name", name, "--runs", str(runs), "--json"]
        assert main(["fit", "spiral", *WORDS, *words]) == 0
    return runs


def test_a_frame_for_every_kept_epoch_and_three_stills(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "out" / "spiral.gif"
    assert main(["animate", str(folder / "adaptive"), "--output", str(file), "--stills", "--frame-ms", "200"]) == 0
    with Image.open(file) as animation:
        durations = []
        for place in range(animation.n_frames):  # type: ignore[attr-defined]
            animation.seek(place)
            durations.append(animation.info["duration"])
        assert animation.info["loop"] == 0
    assert durations == [1500, 200, 200, 1500], "before training, three epochs, with a pause at both ends"
    assert {item.name for item in file.parent.iterdir()} == {
        "spiral.gif",
        "spiral-first.png",
        "spiral-middle.png",
        "spiral-last.png",
    }


def test_what_is_drawn_is_what_the_run_did(folder: Path) -> None:
    run = folder / "adaptive"
    observer = Observer(run)
    kept = kept_epochs(run)
    assert list(kept) == [0, 1, 2, 3]
    moments = [observer.moment(epoch, file) for epoch, file in kept.items()]
    trajectory = observer.trajectory(moments)
    result = json.loads((run / "metrics.json").read_text())
    assert moments[result["best_epoch"]].accuracy == pytest.approx(result["test"]["accuracy"])
    assert trajectory.classes is not None
    assert set(trajectory.classes) == {0, 1}
    keys = [moment.keys for moment in moments if moment.keys is not None]
    assert len(keys) == 4
    assert np.abs(keys[0]).max() <= 2, "they start within the square"
    assert all(not np.array_equal(before, after) for before, after in itertools.pairwise(keys))
    assert moments[0].shares.sum(axis=-1) == pytest.approx(1, abs=1e-5)
    first, last = draw_frame(trajectory, 0, 40), draw_frame(trajectory, 3, 40)
    assert first.shape == last.shape
    assert not np.array_equal(first, last)


def test_a_model_without_neighbours_shows_its_map(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["animate", str(folder / "linear"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [str(folder / "linear" / "animation.gif")]
    observer = Observer(folder / "linear")
    moments = [observer.moment(epoch, file) for epoch, file in kept_epochs(folder / "linear").items()]
    assert observer.trajectory(moments).classes is None
    assert moments[0].keys is None


def test_what_cannot_be_animated_is_one_sentence(
    folder: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def complaint(*words: str) -> str:
        code = main(["animate", *words])
        err = capsys.readouterr().err
        assert code in (1, 2)
        assert err.count("\n") == 1
        return err

    assert "does not tell classes of points in the plane" in complaint(str(runs / "vanilla"))
    assert "no artifact folder" in complaint(str(tmp_path / "none"))
    assert "an animation is a .gif file" in complaint(str(folder / "linear"), "--output", "spiral.mp4")
    assert "--frame-ms is 1" in complaint(str(folder / "linear"), "--frame-ms", "1")
    run = Path(shutil.copytree(folder / "adaptive", tmp_path / "run"))
    (run / "checkpoints" / "epoch-0002.safetensors").write_bytes(b"nothing")
    assert "epoch-0002.safetensors does not fit" in complaint(str(run))
    for file in (run / "checkpoints").glob("epoch-*"):
        file.unlink()
    assert "--training.keep_every 1" in complaint(str(run))
