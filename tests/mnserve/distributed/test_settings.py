"""Settings of `mnserve ray`, from the command line's class and from arguments of Ray Serve."""

from __future__ import annotations

from typing import Any

import pytest

from mnserve.distributed.arguments import settings_from_arguments
from mnserve.distributed.settings import ClusterSettings, PlacementSettings, RaySettings
from mnserve.errors import SettingsError
from mnserve.settings import ServeSettings


def test_a_replica_is_a_server_with_its_share_of_the_machine() -> None:
    settings = RaySettings(repository="models", placement=PlacementSettings(cpus=3.5), max_queue_rows=7)
    replica = settings.of_replica("10.0.0.5")
    assert type(replica) is ServeSettings
    assert (replica.host, replica.grpc_port, replica.metrics_port) == ("10.0.0.5", 0, 0)
    assert (replica.intra_op_threads, replica.max_queue_rows, replica.offers_shared_memory) == (3, 7, False)


def test_without_direct_calls_a_replica_listens_to_its_machine_alone() -> None:
    placement = PlacementSettings(direct=False, direct_port=9001)
    replica = RaySettings(repository="models", placement=placement).of_replica("10.0.0.5")
    assert (replica.host, replica.grpc_port) == ("127.0.0.1", 0)


def test_threads_that_were_asked_for_stay() -> None:
    settings = RaySettings(repository="models", intra_op_threads=2, placement=PlacementSettings(cpus=8))
    assert settings.of_replica("10.0.0.5").intra_op_threads == 2
    on_gpus = RaySettings(repository="models", placement=PlacementSettings(gpus=1))
    assert on_gpus.of_replica("10.0.0.5").intra_op_threads == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"grpc_port": 0}, "--grpc-port is 0"),
        ({"grpc_port": 8000}, "--list-port are both 8000"),
        ({"repository": "s3://bucket/models"}, "REPOSITORY is a URL"),
        ({"http_port": 8005}, "replicas answer gRPC"),
        ({"console": True}, "replicas answer gRPC"),
        ({"front_ends": 2}, "--front-ends"),
        ({"engine_processes": 2, "front_ends": 1}, "--engine-processes"),
        ({"model_control": "explicit"}, "give none or poll"),
        ({"shared_memory": "on"}, "--shared-memory on"),
        ({"model_control": "poll", "separate": True}, "--separate"),
        ({"replicas": 0}, "--replicas is 0"),
        ({"replicas": 3, "max_replicas": 2}, "--max-replicas is 2"),
        ({"target_queued_rows": 0}, "--target-queued-rows is 0"),
        ({"gpus": -1}, "--gpus is -1"),
        ({"direct_port": 70_000}, "--direct-port is 70000"),
        ({"detach": True}, "give --address"),
        *(({"app": name}, "--app") for name in ("", "a/b", "a#b", "{a}", "-", "ü", "a b", "a\n", "a" * 65)),
        ({"token_file": "tokens"}, "--insecure-tokens"),
        ({"token_file": "tokens", "tls_certificate": "a", "tls_key": "b"}, "RAY_USE_TLS"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    with pytest.raises(SettingsError, match=words):
        settings_from_arguments({"repository": "models", **values})


def test_arguments_of_serve_run_are_text() -> None:
    settings = settings_from_arguments(
        {
            "repository": "models",
            "replicas": "2",
            "gpus": "0.5",
            "separate": "true",
            "providers": "cuda,cpu",
            "app": "vision",
            "max_queue_rows": "64",
        }
    )
    assert settings.placement == PlacementSettings(replicas=2, gpus=0.5, separate=True)
    assert settings.cluster == ClusterSettings(app="vision")
    assert (settings.providers, settings.max_queue_rows) == (("cuda", "cpu"), 64)


def test_arguments_of_a_file_have_types() -> None:
    settings = settings_from_arguments(
        {"repository": "models", "providers": ["cuda", "cpu"], "provider_options": ["cuda.a=b c"], "direct": False}
    )
    assert settings.provider_options == ("cuda.a=b c",)
    assert not settings.placement.direct


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "repository is missing"),
        ({"repository": "models", "replica": 2}, "did you mean replicas"),
        ({"repository": "models", "zzz": 2}, "mnserve ray --help"),
        ({"repository": "models", "replicas": "two"}, "replicas is 'two'"),
        ({"repository": "models", "model_control": "never"}, "model_control is 'never'"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings_from_arguments(arguments)
