"""A model that tells its neighbors, with the training images that were published beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from row_models import write_row_model

COLOURS = ("red", "lime", "blue", "white", "black")
ENTRY_LABELS = [0, 2, 1]
POSITIONS = [3, 40, 500, 6000, 70000]
INDICES = [[0, 3], [1, 4], [2, 3]]


def training_arrays() -> dict[str, Any]:
    """The content of neighbors.npz for three entries and five images of 6x4 pixels, one of each colour."""
    pictures = [np.asarray(Image.new("RGB", (6, 4), name)).transpose(2, 0, 1) for name in COLOURS]
    return {
        "images": np.stack(pictures),
        "labels": np.array([0, 1, 2, 0, 1]),
        "positions": np.array(POSITIONS),
        "indices": np.array(INDICES, dtype=np.int32),
        "entry_labels": np.array(ENTRY_LABELS),
    }


@pytest.fixture
def explained_model(onnx_model: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a model of colours whose three entries are the channels: ``explained_model("name", labels=[…])``.

    Attention is the softmax of the channel means, the two largest are told, and every image is the first class without
    adaptation.
    """

    def write(
        name: str = "m", *, labels: tuple[str, ...] = ("red", "green", "blue"), arrays: dict[str, Any] | None = None
    ) -> Path:
        nodes = [
            ("Cast", ["image"], ["pixels"]),
            ("ReduceMean", ["pixels", "axes"], ["means"]),
            ("Mul", ["means", "gain"], ["logits"]),
            ("Softmax", ["logits"], ["probabilities"]),
            ("TopK", ["probabilities", "k"], ["neighbor_weights", "neighbor_indices"]),
            ("Gather", ["entry_labels", "neighbor_indices"], ["neighbor_labels"]),
            ("Mul", ["logits", "zero"], ["nothing"]),
            ("Softmax", ["nothing"], ["unadapted_probabilities"]),
        ]
        from onnx import TensorProto, helper

        made = [helper.make_node(*node) for node in nodes]
        made[0].attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
        made[1].attribute.append(helper.make_attribute("keepdims", 0))
        stated = {
            "mn.labels": list(labels),
            "mn.input": {"layout": "NCHW", "color": "RGB", "scale": "0..255"},
            "mn.on_request": [
                "neighbor_indices", "neighbor_weights", "neighbor_labels", "unadapted_probabilities",
            ],
        }  # fmt: skip
        folder = onnx_model(
            name,
            made,
            {"image": ("UINT8", ["batch", 3, 4, 6])},
            {
                "probabilities": ("FLOAT", ["batch", 3]),
                "neighbor_indices": ("INT64", ["batch", 2]),
                "neighbor_weights": ("FLOAT", ["batch", 2]),
                "neighbor_labels": ("INT64", ["batch", 2]),
                "unadapted_probabilities": ("FLOAT", ["batch", 3]),
            },
            initializers={
                "axes": np.array([2, 3]),
                "gain": np.array(0.01, dtype=np.float32),
                "zero": np.array(0, dtype=np.float32),
                "k": np.array([2]),
                "entry_labels": np.array(ENTRY_LABELS),
            },
            config="max_batch_size: 4\n"
            + "\n".join(
                f"parameters {{ key: {json.dumps(key)} value {{ string_value: {json.dumps(json.dumps(value))} }} }}"
                for key, value in stated.items()
            ),
        )
        if arrays is not None:
            np.savez_compressed(folder / "1" / "neighbors.npz", **arrays)
            vouch(folder)
        return folder

    return write


def vouch(folder: Path) -> None:
    """Write export.json with the digests of all files of version 1."""
    files = [file for file in (folder / "1").iterdir() if file.name != "export.json"]
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (folder / "1" / "export.json").write_text(json.dumps({"sha256": digests}))


@pytest.fixture
def training() -> dict[str, Any]:
    """See :func:`training_arrays`."""
    return training_arrays()


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """A folder with 0-red.png, 1-green.png and 2-blue.png of 6x4 pixels."""
    folder = tmp_path / "colours"
    folder.mkdir()
    for index, name in enumerate(("red", "green", "blue")):
        Image.new("RGB", (6, 4), COLOURS[index]).save(folder / f"{index}-{name}.png")
    return folder


@pytest.fixture
def row_model(onnx_model: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a model of rows, see :func:`row_models.write_row_model`."""
    return partial(write_row_model, onnx_model)
