"""`mntrain fit` with kernel shapes that a penalty empties."""

from pathlib import Path

import pytest

from mntrain.commands.cli import main


def test_a_run_whose_layer_has_no_tap_left_ends_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--training.epochs", "2", "--backbone.width", "0.1", "--data.train_limit", "128", "--family", "vanilla"]
    shape = {"mode": "static", "kernel_shape": "true", "shape_threshold": "0.9999", "shape_penalty": "100"}
    settings = [word for key, value in shape.items() for word in (f"--backbone.similarity.{key}", value)]
    run = ["--backbone.name", "cnn9", "--runs", str(tmp_path), "--name", "a", "--json"]
    assert main(["fit", "digits", *small, *settings, *run]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert "The kernel shape of layer backbone.layers.3 has no tap left after epoch 1" in err
    assert "backbone.similarity.shape_threshold, 0.9999" in err
    assert "backbone.similarity.shape_penalty (100.0 now)" in err
    assert not list(tmp_path.glob("a/checkpoints/*"))
