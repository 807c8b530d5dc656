"""`mntrain animate`: a frame for every kept epoch, and refused runs."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from PIL import Image
from safetensors.numpy import load_file

from mntrain.analysis.animation import draw_frame, draw_moment
from mntrain.analysis.trajectory import Observer, kept_epochs
from mntrain.commands.cli import main
from mntrain.plotting.style import draw_raster

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


@pytest.mark.parametrize("classes", [2, 4, 14])
def test_the_legend_lies_inside_the_picture_and_names_every_class(folder: Path, classes: int) -> None:
    run = folder / "adaptive"
    observer = Observer(run)
    trajectory = observer.trajectory([observer.moment(3, kept_epochs(run)[3])])
    labels = tuple(f"a class with a long name, {place}" for place in range(classes))
    figures: list[Figure] = []

    def draw(figure: Figure) -> None:
        figures.append(figure)
        draw_moment(figure, replace(trajectory, labels=labels), 0)

    draw_raster(draw, size=(5.6, 6.0), dpi=100)
    (legend,) = figures[0].legends
    box, axes = legend.get_window_extent(), figures[0].axes[0].get_tightbbox()
    assert figures[0].bbox.x0 <= box.x0 < box.x1 <= figures[0].bbox.x1
    assert figures[0].bbox.y0 <= box.y0 < box.y1 <= figures[0].bbox.y1
    assert axes is not None
    assert axes.y0 >= box.y1, "the axes make room"
    texts = [text.get_text() for text in legend.get_texts()]
    assert sum(text.startswith("predicted a class") for text in texts) == min(classes, 12)
    assert ("and 2 more classes" in texts) == (classes == 14)
    assert texts[-2:] == ["wrong", "neighbor"]


def test_drawn_answers_are_those_of_the_run(folder: Path) -> None:
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
    maps = []
    for place, moment in enumerate(moments):
        figure = Figure()
        draw_moment(figure, trajectory, place)
        axes = figure.axes[0]
        predicted, wrong, neighbors = [one for one in axes.collections if isinstance(one, PathCollection)]
        points, targets = trajectory.test.inputs, trajectory.test.targets
        np.testing.assert_array_equal(predicted.get_offsets(), points)
        np.testing.assert_array_equal(wrong.get_offsets(), points[moment.predicted != targets])
        np.testing.assert_array_equal(neighbors.get_offsets(), moment.keys)
        paths = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
        assert len(paths) == 12
        assert moment.keys is not None
        for entry, path in enumerate(paths):
            xy = np.column_stack([np.asarray(path.get_xdata()), np.asarray(path.get_ydata())])
            assert len(xy) == place + 1
            np.testing.assert_array_equal(xy[-1], moment.keys[entry])
        maps.append(np.asarray(axes.images[0].get_array()))
        assert f"epoch {place}," in axes.get_title()
    assert not np.array_equal(maps[0], maps[3])
    first, last = draw_frame(trajectory, 0, 40), draw_frame(trajectory, 3, 40)
    assert first.shape == last.shape
    assert not np.array_equal(first, last)


def test_keys_lie_in_the_units_of_the_points(tmp_path: Path) -> None:
    words = ["--normalization", "per_channel", "--name", "scaled", "--runs", str(tmp_path), "--json"]
    assert main(["fit", "spiral", *WORDS, *words]) == 0
    run = tmp_path / "scaled"
    scale = json.loads((run / "artifact" / "config.json").read_text())["standardization"]
    file = kept_epochs(run)[3]
    keys = next(values for name, values in load_file(str(file)).items() if name.endswith("keys"))
    assert any(abs(mean) > 1e-4 for mean in scale["mean"])
    expected = keys.astype(np.float64) * scale["std"] + scale["mean"]
    found = Observer(run).moment(3, file).keys
    assert found is not None
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_last_epoch_is_kept_too(tmp_path: Path) -> None:
    words = ["--training.keep_every", "2", "--name", "odd", "--runs", str(tmp_path), "--json"]
    assert main(["fit", "spiral", *WORDS, *words]) == 0
    assert list(kept_epochs(tmp_path / "odd")) == [0, 2, 3]


def test_a_model_without_neighbors_shows_its_map(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["animate", str(folder / "linear"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [str(folder / "linear" / "animation.gif")]
    observer = Observer(folder / "linear")
    moments = [observer.moment(epoch, file) for epoch, file in kept_epochs(folder / "linear").items()]
    assert observer.trajectory(moments).classes is None
    assert moments[0].keys is None


def test_a_run_that_cannot_be_animated_is_refused_in_one_sentence(
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
