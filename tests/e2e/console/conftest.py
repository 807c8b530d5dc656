"""A server with models of every kind, its console, and a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from row_models import write_row_model

RECORDED = Path(__file__).parents[2] / "recorded" / "data" / "repository"
HOSTILE = "<img src=x onerror=\"document.title='run'\">"
HOSTILE_LABELS = (HOSTILE, "</bdi><script>document.title='run'</script>", "grün\u202e", *"3456789")


@pytest.fixture(scope="module")
def models(
    tmp_path_factory: pytest.TempPathFactory,
    write_onnx_model: Callable[..., Path],
    write_colour_model: Callable[..., Path],
) -> Path:
    """Writes a repository: digits with and without explanations, rows, tensors, a broken model, and a hostile one."""
    root = tmp_path_factory.mktemp("models")
    for name in ("digits-mn", "digits-plain"):
        shutil.copytree(RECORDED / name, root / name)
    shutil.copytree(RECORDED / "digits-mn", root / "hostile")
    config = (root / "hostile" / "config.pbtxt").read_text().replace('"digits-mn"', '"hostile"')
    labels = json.dumps(json.dumps(HOSTILE_LABELS))
    config = re.sub(r'("mn\.labels" value \{ string_value: )"[^"]*"', lambda match: match[1] + labels, config)
    (root / "hostile" / "config.pbtxt").write_text(config)
    write_row_model(partial(write_onnx_model, root))
    write_colour_model(root, "colors", max_batch_size=4)
    tensor = ("FLOAT", ["batch", 3])
    write_onnx_model(root, "double", [("Add", ["x", "x"], ["y"])], {"x": tensor}, {"y": tensor})
    (root / "broken" / "1").mkdir(parents=True)
    (root / "broken" / "1" / "model.onnx").write_bytes(b"garbage")
    return root


@pytest.fixture(scope="module")
def long_name() -> str:
    """Name of a model, about as long as they may be."""
    return "a-long-name-" + "of-a-model-" * 17


@pytest.fixture(scope="module")
def further_models(models: Path, long_name: str, write_onnx_model: Callable[..., Path]) -> Path:
    """Adds models of other tensors: whole numbers, halves of floats, texts, NaN, images as answers, and a long name."""
    write = partial(write_onnx_model, models)
    for name, kind in (("integers", "INT64"), ("halves", "BFLOAT16"), ("texts", "STRING"), (long_name, "FLOAT")):
        tensor = (kind, ["batch", 1])
        write(name, [("Identity", ["x"], ["y"])], {"x": tensor}, {"y": tensor}, config="max_batch_size: 8\n")
    write(
        "picky",
        [("Gather", ["table", "x"], ["y"])],
        {"x": ("INT64", ["batch", 1])},
        {"y": ("FLOAT", ["batch", 1])},
        initializers={"table": np.array([1, 2], np.float32)},
    )
    image = ("FLOAT", ["batch", 3, 16, 16])
    write("segment", [("Neg", ["image"], ["mask"])], {"image": image}, {"mask": image}, config="max_batch_size: 4\n")
    row = ("FLOAT", ["batch", 3])
    zero = {"zero": np.array(0, np.float32)}
    write("quotients", [("Div", ["x", "zero"], ["y"])], {"x": row}, {"y": row}, initializers=zero)
    return models


@pytest.fixture(scope="module")
def start_console(start_server: Callable[..., Any]) -> Callable[..., Any]:
    """Starts a server with a console; its attribute ``http`` is the URL of the HTTP port."""

    def start(root: Path, *arguments: str) -> Any:
        server = start_server(root, "--http-port", "0", "--console", *arguments)
        server.http = re.findall(r"https?://[^ ,/]+(?=[ ,]|$)", server.announcement)[0]
        return server

    return start


@pytest.fixture(scope="module")
def server(models: Path, start_console: Callable[..., Any]) -> Any:
    """Serves the models, and lets callers load and unload them."""
    return start_console(models, "--model-control", "explicit", "--load-model", "*")


@pytest.fixture
def digits(tmp_path: Path) -> list[Path]:
    """Files of two handwritten digits of 8 x 8 pixels: a one and a seven."""
    one = ["00111000", "00011000", "00011000", "00011000", "00011000", "00011000", "00011000", "00111100"]
    seven = ["01111110", "00000110", "00001100", "00011000", "00110000", "00110000", "00110000", "00110000"]
    files = []
    for name, rows in (("one.png", one), ("seven.png", seven)):
        pixels = np.array([[int(cell) * 255 for cell in row] for row in rows], np.uint8)
        files.append(tmp_path / name)
        Image.fromarray(pixels).save(files[-1])
    return files
