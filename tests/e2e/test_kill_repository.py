"""A repository that is deleted under the server."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

StartServer = Callable[..., Any]


@pytest.fixture
def root(write_models: Callable[[Path], None], tmp_path: Path) -> Path:
    write_models(tmp_path / "models")
    return tmp_path / "models"


def doubles(client: Any) -> bool:
    item = triton.InferInput("x", [1, 4], "FP32")
    item.set_data_from_numpy(np.full((1, 4), 3, np.float32))
    return bool((client.infer("double", [item]).as_numpy("y") == 6).all())


@pytest.mark.parametrize("mode", ["none", "explicit"])
def test_what_is_loaded_goes_on(start_server: StartServer, root: Path, mode: str) -> None:
    choice = ["--load-model", "double"] if mode == "explicit" else []
    server = start_server(root, "--model-control", mode, *choice)
    with triton.InferenceServerClient(server.address) as client:
        assert doubles(client)
        shutil.rmtree(root)
        assert doubles(client)
        client.get_model_repository_index()
        if mode == "explicit":
            with pytest.raises(InferenceServerException, match="does not exist") as caught:
                client.load_model("double")
            assert caught.value.status() == "StatusCode.NOT_FOUND"
            assert doubles(client)
    server.process.terminate()
    assert server.process.wait(30) == 0
    assert "Traceback" not in server.log()


def test_a_poller_keeps_what_it_has_and_goes_on_when_the_repository_is_back(
    start_server: StartServer, root: Path, tmp_path: Path
) -> None:
    server = start_server(root, "--model-control", "poll", "--poll-seconds", "0.1")
    away = tmp_path / "away"
    with triton.InferenceServerClient(server.address) as client:
        assert doubles(client)
        root.rename(away)
        server.wait_for_log("cannot be looked through", times=2)
        assert doubles(client)
        shutil.rmtree(away / "text")
        away.rename(root)
        server.wait_for_log("model 'text' is gone")
        assert doubles(client)
        shutil.rmtree(root / "double")
        server.wait_for_log("model 'double' is gone")
        with pytest.raises(InferenceServerException):
            doubles(client)
    server.process.terminate()
    assert server.process.wait(30) == 0
    assert "Traceback" not in server.log()
