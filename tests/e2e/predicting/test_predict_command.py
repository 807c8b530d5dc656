"""``mnserve predict`` as a process, against a server that is another process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mnserve.bench.server_process import server_process
from mnserve.client.blocking import Client
from mnserve.errors import RequestRefusedError

MAIN = "import sys; from mnserve.commands.cli import main; sys.exit(main())"


def mnserve(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", MAIN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, write_colour_model) -> Path:
    path = tmp_path_factory.mktemp("repository")
    write_colour_model(path, "colours")
    write_colour_model(path, "foreign", datatype="FP32", labels=None, write_config=False)
    (path / "broken" / "1").mkdir(parents=True)
    (path / "broken" / "1" / "model.onnx").write_bytes(b"not a model")
    return path


@pytest.fixture(scope="module")
def url(repository: Path) -> Iterator[str]:
    with server_process(repository, ["--intra-op-threads", "1"]) as address:
        yield address


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    paths = []
    for index, colour in enumerate(("red", "lime", "blue") * 3):
        paths.append(tmp_path / f"{index}.png")
        Image.new("RGB", (6, 4), colour).save(paths[-1])
    return paths


def test_files_are_predicted_in_order_and_the_bad_one_is_named(url: str, images: list[Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(images[0].read_bytes()[:-30])
    done = mnserve("predict", "colours", *images[:5], bad, *images[5:], "--url", url, "--json", "--top", 2)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [one["file"] for one in found] == [str(path) for path in images]
    assert [one["label"] for one in found] == ["red", "green", "blue"] * 3
    assert all(len(one["top"]) == 2 for one in found)
    about, summary = done.stderr.splitlines()
    assert about.startswith(f"mnserve predict: error: {bad}: the image is damaged or incomplete")
    assert summary == "mnserve predict: 9 predicted, 1 not"


def test_a_server_and_a_folder_give_the_same_predictions(url: str, images: list[Path], repository: Path) -> None:
    for model in ("colours", "foreign"):
        served = mnserve("predict", model, *images, "--url", url, "--json")
        local = mnserve("predict", repository / model, *images, "--json")
        assert served.returncode == local.returncode == 0
        assert json.loads(served.stdout) == json.loads(local.stdout)


def test_output_elsewhere_than_a_terminal_is_one_plain_line_a_file(url: str, images: list[Path]) -> None:
    done = mnserve("predict", "colours", *images, "--url", url, "--top", 1)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"{path}: {label} 1.0000" for path, label in zip(images, ["red", "green", "blue"] * 3, strict=True)
    ]
    assert done.stderr == ""


@pytest.mark.parametrize("model", ["gone", "broken"])
def test_a_model_that_is_not_served_is_refused_in_one_sentence(url: str, images: list[Path], model: str) -> None:
    done = mnserve("predict", model, images[0], "--url", url)
    assert done.returncode == 1
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert model in sentence
    if model == "gone":
        assert "colours" in sentence
        assert "foreign" in sentence


def test_an_address_without_a_server_is_refused_with_the_remedy(images: list[Path]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    done = mnserve("predict", "colours", images[0], "--url", f"127.0.0.1:{port}")
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert f"no server answers at 127.0.0.1:{port}" in sentence
    assert "mnserve serve" in sentence


@pytest.mark.parametrize(
    "arguments", [("colours",), ("colours", "a.png", "--top", "0"), ("colours", "a.png", "--url", "http://h")]
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    done = mnserve("predict", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_the_client_speaks_to_the_real_server(url: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 4, 6)).astype(np.uint8)
    with Client(url) as client:
        assert client.server_live()
        assert client.model_ready("colours")
        assert not client.model_ready("broken")
        assert client.server_metadata().name
        assert [one.name for one in client.model_metadata("colours").inputs] == ["image"]
        assert client.model_config("foreign").max_batch_size == 32
        assert {"colours", "foreign"} <= {*client.model_names()}
        outputs = client.infer("colours", {"image": images}, ["logits"])
        assert outputs.keys() == {"logits"}
        np.testing.assert_allclose(outputs["logits"], images.mean(axis=(2, 3)), rtol=1e-5)
        with pytest.raises(RequestRefusedError, match="INVALID_ARGUMENT"):
            client.infer("colours", {"image": images.astype(np.float32)})
        with pytest.raises(RequestRefusedError, match="INVALID_ARGUMENT"):
            client.infer("colours", {"image": images[:0]})
