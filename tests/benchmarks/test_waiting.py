"""Parts of the benchmark of the moment: its networks, and the lists of its command line."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import pytest
from waiting.__main__ import WITH, WITHOUT, list_of_networks, write_repository
from waiting.networks import convolutions, dense

from mnserve.engines.runtime import onnxruntime as ort


@pytest.mark.parametrize("network", [dense(0), dense(1), convolutions(1), convolutions(2)])
def test_a_network_answers_rows_of_its_own(network: onnx.ModelProto) -> None:
    session = ort.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = np.random.default_rng(0).standard_normal((3, 3, 32, 32), np.float32)
    (together,) = session.run(None, {"x": rows})
    assert together.shape == (3, 10)
    assert np.isfinite(together).all()
    np.testing.assert_allclose(session.run(None, {"x": rows[1:2]})[0], together[1:2], rtol=1e-3, atol=1e-5)


def test_networks_are_named_with_their_layers() -> None:
    assert list_of_networks("dense:0,convolutions:80") == [("dense", 0), ("convolutions", 80)]
    for text in ("dense", "dense:x", "lstm:3"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no network"):
            list_of_networks(text)


def test_repositories_differ_in_nothing_but_the_moment(tmp_path: Path) -> None:
    onnx.save(dense(0), tmp_path / "dense-0.onnx")
    for way, extra in ((WITH, ""), (WITHOUT, "dynamic_batching { max_queue_delay_microseconds: 1 }\n")):
        write_repository(tmp_path / way, [tmp_path / "dense-0.onnx"], extra=extra)
        assert (tmp_path / way / "dense-0" / "config.pbtxt").read_text() == f"max_batch_size: 64\n{extra}"
        assert (tmp_path / way / "dense-0" / "1" / "model.onnx").exists()
