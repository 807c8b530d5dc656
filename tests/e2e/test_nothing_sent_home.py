"""Commands and the Python API neither ask for a name nor leave a file at home: nothing reports usage.

Each runs in a network namespace with a name server that listens, and with empty folders for everything of the user.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from PIL import Image

_NAMESPACE = ("unshare", "--net", "--mount")
_WAYS = ((*_NAMESPACE, "--map-root-user"), _NAMESPACE)  # the second where root may not make a user namespace
_OBSERVER = (sys.executable, str(Path(__file__).with_name("observed_commands.py")))
# Local caches of libraries: matplotlib's list of fonts.
_CACHES = re.compile(r"XDG_CACHE_HOME/matplotlib/fontlist-.*\.json")


@pytest.fixture(scope="module")
def observe() -> Callable[..., list[dict[str, Any]]]:
    """Runs commands in one namespace: ``observe(["-m", "mnserve", ...], ...)``."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed (Debian: util-linux)")
    trials = [subprocess.run([*way, *_OBSERVER], input="[]", capture_output=True, text=True) for way in _WAYS]
    unshare = next((way for way, trial in zip(_WAYS, trials, strict=True) if trial.returncode == 0), None)
    if unshare is None:
        pytest.skip(f"network namespaces are not to be had here: {trials[0].stderr.strip()}")

    def run(*commands: list[str]) -> list[dict[str, Any]]:
        done = subprocess.run(
            [*unshare, *_OBSERVER],
            input=json.dumps(commands),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, write_colour_model: Callable[..., Path]) -> Path:
    """A repository with the model ``colours``, and ``image.png`` beside it."""
    folder = tmp_path_factory.mktemp("served") / "repository"
    write_colour_model(folder, "colours")
    Image.new("RGB", (6, 4), (200, 10, 10)).save(folder.parent / "image.png")
    return folder


def is_silent(seen: dict[str, Any]) -> None:
    assert (seen["code"], seen["names"]) == (0, []), seen["output"]
    assert [file for file in seen["files"] if not _CACHES.fullmatch(file)] == []


def test_names_and_files_would_be_seen(observe: Callable[..., list[dict[str, Any]]]) -> None:
    asking = "import contextlib, socket\nwith contextlib.suppress(OSError): socket.getaddrinfo('somewhere.test', 443)"
    by_name, reporting = observe(["-c", asking], ["ORT_DISABLE_TELEMETRY=0", "-c", "import mnserve.engines.runtime"])
    assert (by_name["code"], by_name["names"]) == (0, ["somewhere.test"])
    version = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    assert bool(reporting["files"]) == (version >= (1, 29)), "a user who sets 0 gets the reports"


def test_serving_is_silent(observe: Callable[..., list[dict[str, Any]]], models: Path) -> None:
    repository, image = str(models), str(models.parent / "image.png")
    hub = (
        "from mnserve.object_store.libraries import open_filesystem\n"
        "from mnserve.object_store.url import parse_url\n"
        "open_filesystem(parse_url('hf://owner/name/models'), 1.0)\n"
        "import huggingface_hub.constants as hub; assert hub.HF_HUB_DISABLE_TELEMETRY"
    )
    library = (
        "import numpy, mnserve\n"
        f"with mnserve.LocalModel.open(__import__('pathlib').Path({repository!r}), 'colours') as model:\n"
        "    model.infer({'image': numpy.zeros((1, 3, 4, 6), numpy.uint8)}, ['logits'])"
    )
    health = "from mnserve.commands.cli import main; raise SystemExit(main(['health', '--url', '127.0.0.1:9']) != 1)"
    for seen in observe(
        ["-m", "mnserve", "serve", repository, "--grpc-port", "0", "--metrics-port", "0"],
        ["-m", "mnserve", "check", repository],
        ["-m", "mnserve", "predict", str(models / "colours"), image],
        ["-m", "mnserve", "bench", repository, "colours", "--batch", "1", "--seconds", "0.1"],
        ["-c", library],
        ["-c", hub],
        ["-m", "mnserve", "check", f"file://{repository}", "--model-cache", str(models.parent / "cache")],
        ["-c", health],  # of a server that is not there
    ):
        is_silent(seen)


def test_ray_is_silent(observe: Callable[..., list[dict[str, Any]]]) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed (pip install '.[ray]')")
    library = (
        "import mnserve.distributed.session\n"
        "from ray._common.usage.usage_lib import usage_stats_enabled\n"
        "assert not usage_stats_enabled()"
    )
    by_user = library.replace("not usage", "usage")
    for seen in observe(["-c", library], ["RAY_USAGE_STATS_ENABLED=1", "-c", by_user]):
        is_silent(seen)


def test_loggers_of_training_are_silent(observe: Callable[..., list[dict[str, Any]]], tmp_path: Path) -> None:
    command = ["-m", "mntrain", "fit", "spiral", "--family", "vanilla", "--name", "run", "--runs", str(tmp_path)]
    (seen,) = observe([*command, "--training.epochs", "1", "--training.loggers", "[mlflow,wandb]"])
    assert (seen["code"], seen["names"]) == (0, []), seen["output"]
    logs = re.compile(r"(HOME/\.cache|XDG_CACHE_HOME)/wandb/logs/.*\.log")
    assert [file for file in seen["files"] if not (_CACHES.fullmatch(file) or logs.fullmatch(file))] == []
    assert (tmp_path / "run" / "mlruns").is_dir()
    assert (tmp_path / "run" / "wandb").is_dir()


def test_training_and_export_are_silent(observe: Callable[..., list[dict[str, Any]]], tmp_path: Path) -> None:
    hub = "import mntrain.data.sources.datasets, huggingface_hub.constants as hub; assert hub.HF_HUB_DISABLE_TELEMETRY"
    networks = (
        "from mntrain.networks.libraries import runtime_library, transformers_library\n"
        "runtime_library(), transformers_library()\n"
        "import huggingface_hub.constants as hub; assert hub.HF_HUB_DISABLE_TELEMETRY"
    )
    training = ["-m", "mntrain", "fit", "spiral", "--family", "vanilla", "--name", "run", "--runs", str(tmp_path)]
    for seen in observe(
        [*training, "--training.epochs", "1"],
        ["-m", "mnexport", str(tmp_path / "run" / "artifact"), str(tmp_path / "repository" / "spiral")],
        ["-c", hub],
        ["-c", networks],
    ):
        is_silent(seen)
