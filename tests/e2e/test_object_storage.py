"""``mnserve serve URL``: a real server whose repository is on a web server, in S3 or on a hub; NVIDIA's client."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from file_store import FileStore
from hub_server import HubServer, Repository
from tritonclient.utils import InferenceServerException

StartServer = Callable[..., Any]
SECRETS = ("joe-the-reader", "sesame%2Fopen", "sesame/open", "token-of-the-url", "secretOfEnvironment")


@pytest.fixture
def models(tmp_path: Path, write_colour_model: Callable[..., Path]) -> Path:
    """A repository with ``colours``, whose logits are the pixels."""
    write_colour_model(tmp_path / "uploaded", "colours")
    return tmp_path / "uploaded"


@pytest.fixture
def new_version(models: Path, tmp_path: Path, write_colour_model: Callable[..., Path]) -> Callable[[int, float], None]:
    """Writes a further version, whose logits are the pixels times a factor."""

    def write(version: int, gain: float) -> None:
        write_colour_model(tmp_path / f"gain-{gain}", "colours", gain=gain)
        shutil.move(tmp_path / f"gain-{gain}" / "colours" / "1", models / "colours" / str(version))

    return write


@pytest.fixture
def store(models: Path) -> Iterator[FileStore]:
    with FileStore() as server:
        server.put(models)
        yield server


def ask(client: Any) -> float:
    tensor = triton.InferInput("image", [1, 3, 4, 6], "UINT8")
    tensor.set_data_from_numpy(np.full((1, 3, 4, 6), 5, np.uint8))
    return float(client.infer("colours", [tensor]).as_numpy("logits")[0, 0])


def wait_for_answer(server: Any, client: Any, value: float) -> None:
    server.wait_until(lambda: ask(client) == value)


def test_a_changing_store_is_followed_and_may_go_away(
    start_server: StartServer, store: FileStore, models: Path, new_version: Callable[[int, float], None], tmp_path: Path
) -> None:
    words = ("--model-control", "poll", "--poll-seconds", "0.2", "--model-cache", str(tmp_path / "cache"))
    server = start_server(f"{store.url}/models", *words)
    with triton.InferenceServerClient(server.address) as client:
        assert ask(client) == 5
        store.status = 503
        server.wait_for_log("what is served stays")
        looks = len(store.requests)
        server.wait_until(lambda: len(store.requests) > looks + 4)  # further looks, which say nothing more
        assert server.log().count("what is served stays") == 1
        assert ask(client) == 5
        store.status = 0
        server.wait_for_log("answers again")
        new_version(2, 3.0)
        store.put(models)
        wait_for_answer(server, client, 15)
        assert store.sent("GET", "1/model.onnx") == 1, "a version that is served no more was not asked for again"
        new_version(3, 7.0)
        model = (models / "colours" / "3" / "model.onnx").read_bytes()
        export = {"sha256": {"model.onnx": hashlib.sha256(model).hexdigest()}}
        (models / "colours" / "3" / "export.json").write_text(json.dumps(export))
        store.tampered["models/colours/3/model.onnx"] = model[:-9] + bytes([model[-9] ^ 1]) + model[-8:]
        store.put(models)
        server.wait_for_log("model 'colours' stays as it is served")
        assert "3: model.onnx has SHA-256" in server.log()
        assert ask(client) == 15
        new_version(4, 9.0)
        store.put(models)
        wait_for_answer(server, client, 45)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert not list((tmp_path / "cache" / "views").iterdir())


def test_callers_load_the_model_as_it_is_in_the_store(
    start_server: StartServer, store: FileStore, models: Path, new_version: Callable[[int, float], None], tmp_path: Path
) -> None:
    words = ("--model-control", "explicit", "--model-cache", str(tmp_path / "cache"), "--front-ends", "1")
    server = start_server(f"{store.url}/models", *words)
    with triton.InferenceServerClient(server.address) as client:
        (listed,) = client.get_model_repository_index().models
        assert (listed.name, listed.state) == ("colours", "UNAVAILABLE")
        assert store.sent("GET", "model.onnx") == 0
        client.load_model("colours")
        assert ask(client) == 5
        new_version(2, 3.0)
        store.put(models)
        client.load_model("colours", config='{"version_policy": {"all": {}}}')
        assert ask(client) == 15
        assert client.is_model_ready("colours", "1")
        store.status = 500
        with pytest.raises(InferenceServerException, match="cannot give model 'colours' now") as caught:
            client.load_model("colours")
        assert caught.value.status() == "StatusCode.UNAVAILABLE"
        store.status = 0
        for name in ("other", "../models", "a/b", ".lock"):
            with pytest.raises(InferenceServerException, match="has no model"):
                client.load_model(name)
        assert ask(client) == 15


def test_credentials_are_in_no_output(
    start_server: StartServer, store: FileStore, models: Path, tmp_path: Path
) -> None:
    store.user, store.token = ("joe-the-reader", "sesame/open"), "token-of-the-url"
    url = f"{store.url.replace('://', '://joe-the-reader:sesame%2Fopen@')}/models?token=token-of-the-url"
    environment = {"AWS_SECRET_ACCESS_KEY": "secretOfEnvironment", "MNSERVE_MODEL_CACHE": str(tmp_path / "cache")}
    words = ("--model-control", "poll", "--poll-seconds", "0.2", "--log-level", "debug")
    server = start_server(url, *words, environment=environment)
    told = [server.announcement]
    with triton.InferenceServerClient(server.address) as client:
        assert ask(client) == 5
        told += [str(client.get_server_metadata()), str(client.get_model_repository_index())]
        told += [str(client.get_model_config("colours")), str(client.get_inference_statistics())]
        for status in (500, 403, 404):
            before = server.log().count("what is served stays")
            store.status = status
            server.wait_until(lambda before=before: server.log().count("what is served stays") > before)
            store.status = 0
            server.wait_for_log("answers again", before + 1)
        with urllib.request.urlopen(server.metrics) as response:
            told.append(response.read().decode())
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    told.append(server.log())
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix in (".json", ".lock")]
    told += [path.read_text() for path in files] + list(map(str, files))
    assert files
    for text in told:
        assert not [secret for secret in SECRETS if secret in text], text


def test_a_store_that_is_away_at_the_start_is_waited_for(
    start_server: StartServer, store: FileStore, tmp_path: Path
) -> None:
    store.status = 503
    words = ("--model-cache", str(tmp_path / "cache"), "--front-ends", "1")
    hopeless, stopped, patient = (
        start_server(f"{store.url}/models", *words, "--store-patience", seconds, announced=False)
        for seconds in ("0.5", "600", "600")
    )
    assert hopeless.process.wait(60) == 1
    *_, sentence = hopeless.log().splitlines()
    assert sentence.startswith("mnserve: the object store of http://")
    assert "cannot give the model folders now (HTTP 503)" in sentence
    for server in (stopped, patient):
        server.wait_for_log("it is tried again for")
    stopped.process.send_signal(signal.SIGTERM)
    store.status = 0
    assert stopped.process.wait(60) == 0
    assert patient.process.stdout.readline().startswith("serving 1 model ")


def test_a_repository_on_a_hub_is_served(start_server: StartServer, models: Path, tmp_path: Path) -> None:
    with HubServer() as hub:
        repository = hub.repositories["org/nets"] = Repository()
        files = {
            f"served/{path.relative_to(models)}": path.read_bytes() for path in models.rglob("*") if path.is_file()
        }
        repository.branches["main"].update(files)
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_DISABLE_TELEMETRY": ""}
        words = ("--model-cache", str(tmp_path / "cache"))
        server = start_server("hf://org/nets@main/served", *words, environment=environment)
        with triton.InferenceServerClient(server.address) as client:
            assert ask(client) == 5
        agents = {headers.get("user-agent", "") for _, _, headers in hub.requests}
        assert not [agent for agent in agents if "torch" in agent or "onnx" in agent]


def test_a_repository_in_s3_is_served(
    start_server: StartServer, models: Path, new_version: Callable[[int, float], None], tmp_path: Path
) -> None:
    pytest.importorskip("s3fs", reason="the extra storage-s3 is not installed")
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    import boto3

    s3 = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    s3.start()
    endpoint = f"http://127.0.0.1:{s3.get_host_and_port()[1]}"
    environment = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "keyOfTheTest",
        "AWS_SECRET_ACCESS_KEY": "secretOfEnvironment",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    bucket = boto3.resource(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="keyOfTheTest",
        aws_secret_access_key="secretOfEnvironment",
    ).create_bucket(Bucket="nets")

    def upload() -> None:
        for path in models.rglob("*"):
            if path.is_file():
                bucket.put_object(Key=f"served/{path.relative_to(models)}", Body=path.read_bytes())

    upload()
    bucket.put_object(Key="served/", Body=b"")
    words = ("--model-control", "poll", "--poll-seconds", "0.2", "--model-cache", str(tmp_path / "cache"))
    server = start_server("s3://nets/served", *words, environment=environment)
    with triton.InferenceServerClient(server.address) as client:
        assert ask(client) == 5
        new_version(2, 3.0)
        upload()
        wait_for_answer(server, client, 15)
        s3.stop()
        server.wait_for_log("what is served stays")
        assert ask(client) == 15
    assert not [secret for secret in (*SECRETS, "keyOfTheTest") if secret in server.log()]
