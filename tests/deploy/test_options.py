"""Options, ports, probes and times in deploy/ are those of the real command lines."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from mnserve.client.health_settings import HealthSettings
from mnserve.commands.cli import main
from mnserve.commands.health import HEALTH
from mnserve.commands.serve import SERVE
from mnserve.rpc.health import LIVE_SERVICE, SERVER_SERVICES
from mnserve.settings import OFF, ServeSettings

DEPLOY = Path(__file__).parents[2] / "deploy"
LATER = 5.5
"""Seconds that a server may take for its end after --drain-timeout (docs/serving/operations.md)."""
Parse = Callable[..., Any]


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Parse:
    """Reads the words and variables of a command by the real command line, and returns the settings that would run."""
    for name in [name for name in os.environ if name.startswith("MNSERVE_")]:
        monkeypatch.delenv(name)

    def read(words: list[str], variables: Mapping[str, str] | None = None) -> Any:
        for name, value in (variables or {}).items():
            monkeypatch.setenv(name, value)
        found: list[Any] = []

        def note(settings: Any) -> int:
            found.append(settings)
            return 0

        specs = [dataclasses.replace(spec, run=note, configure_log=None) for spec in (SERVE, HEALTH)]
        assert main(words, specs) == 0
        for name in variables or {}:
            monkeypatch.delenv(name)
        return found[0]

    return read


def check_probes(container: dict[str, Any], settings: ServeSettings, parse: Parse) -> None:
    """Asks start and life of the process, and readiness of the server, at the port where it listens."""
    asked = {}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[kind]
        if "grpc" in probe:
            assert probe["grpc"]["port"] == settings.grpc_port
            assert not settings.security.tls_certificate, "probes of Kubernetes speak no TLS"
            asked[kind] = probe["grpc"].get("service", "")
            continue
        program, *words = probe["exec"]["command"]
        health: HealthSettings = parse(words)
        assert program == "mnserve"
        assert health.url == f"grpcs://localhost:{settings.grpc_port}"
        assert health.timeout <= probe["timeoutSeconds"]
        asked[kind] = health.service
    assert asked == {"startupProbe": LIVE_SERVICE, "livenessProbe": LIVE_SERVICE, "readinessProbe": SERVER_SERVICES[0]}


def check_times(container: dict[str, Any], settings: ServeSettings, grace: float) -> None:
    """A pod that ends is seen as not ready before it refuses, and is given the time that it may take."""
    readiness = container["readinessProbe"]
    assert settings.drain_delay >= readiness["periodSeconds"] * readiness["failureThreshold"]
    assert grace >= settings.drain_delay + settings.drain_timeout + LATER
    assert grace >= settings.transport.max_connection_age_grace


def check_precedence(options: Mapping[str, Any], variables: Mapping[str, str]) -> None:
    """Components add options by variables, and change one of the base alone: a pod with slower probes waits longer."""
    added = {name.removeprefix("MNSERVE_").lower() for name in variables} - {"config"}
    assert added & options.keys() <= {"drain_delay"}


@pytest.mark.parametrize("overlay", ["base", "autoscaling", "gpu", "http", "object-storage", "secured", "mine"])
def test_the_deployment_starts_the_server_that_its_probes_and_ports_expect(
    rendered: dict[str, Any], parse: Parse, tmp_path: Path, overlay: str
) -> None:
    objects = {item["kind"]: item for item in rendered[overlay]}
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (tmp_path / "serve.yaml").write_text(objects["ConfigMap"]["data"]["serve.yaml"])
    mounts = {item["name"]: item["mountPath"] for item in container["volumeMounts"]}
    variables = {item["name"]: item["value"] for item in container["env"]}
    assert variables["MNSERVE_CONFIG"] == f"{mounts['options']}/serve.yaml"
    variables["MNSERVE_CONFIG"] = str(tmp_path / "serve.yaml")
    settings: ServeSettings = parse(container["args"], variables)
    ports = {item["name"]: item["containerPort"] for item in container["ports"]}
    http = {"http": settings.http_port} if overlay in ("http", "mine") else {}
    assert (settings.http_port == OFF) == (not http)
    assert ports == {"grpc": settings.grpc_port, "metrics": settings.metrics_port, **http}
    assert settings.host == "0.0.0.0"  # a pod's own address is not known before
    assert settings.repository == mounts.get("models", "s3://models/repository")
    assert ("models" in mounts) == (overlay not in ("object-storage", "mine"))
    assert ("CUDAExecutionProvider" in settings.engine_options.providers) == (overlay in ("gpu", "mine"))
    check_precedence(yaml.safe_load((tmp_path / "serve.yaml").read_text()), variables)
    check_probes(container, settings, parse)
    check_times(container, settings, pod["terminationGracePeriodSeconds"])
    security = settings.security
    for file in (security.token_file, security.tls_certificate, security.tls_key):
        assert (file is None) == (overlay not in ("secured", "mine"))
        assert file is None or any(file.startswith(f"{mounts[name]}/") for name in ("tokens", "tls"))


def test_both_kinds_of_predictors_of_kserve_start_such_a_server(kserve_objects: dict[str, Any], parse: Parse) -> None:
    runtime = kserve_objects["cluster-serving-runtime"]["spec"]
    custom = kserve_objects["custom-predictor"]["spec"]["predictor"]
    by_runtime = kserve_objects["inference-service"]["spec"]["predictor"]
    for containers, predictor in ((runtime["containers"], by_runtime), (custom["containers"], custom)):
        (container,) = containers
        assert container["name"] == "kserve-container"
        settings: ServeSettings = parse(container["args"])
        assert settings.repository == "/mnt/models"  # where KServe's initializer puts what storageUri names
        assert container["ports"] == [
            {
                "name": "h2c",
                "containerPort": settings.grpc_port,
                "protocol": "TCP",
            },  # the first is KServe's port 80
            {"name": "metrics", "containerPort": settings.metrics_port, "protocol": "TCP"},
        ]
        check_probes(container, settings, parse)
        check_times(container, settings, predictor["terminationGracePeriodSeconds"])
    for scraped in (runtime["annotations"], kserve_objects["custom-predictor"]["metadata"]["annotations"]):
        assert scraped["prometheus.io/port"] == str(settings.metrics_port)
    assert kserve_objects["scaled"]["spec"]["predictor"]["model"] == by_runtime["model"]
    model = by_runtime["model"]
    assert model["runtime"] == kserve_objects["cluster-serving-runtime"]["metadata"]["name"]
    assert model["protocolVersion"] in runtime["protocolVersions"]
    assert model["modelFormat"]["name"] in {item["name"] for item in runtime["supportedModelFormats"]}


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_image_starts_the_server_that_it_asks_for_its_health(parse: Parse, kind: str) -> None:
    text = (DEPLOY / "docker" / f"{kind}.Dockerfile").read_text()

    def words(instruction: str) -> list[str]:
        (found,) = re.findall(rf"^{instruction}.*?(\[.*\])$", text, flags=re.MULTILINE)
        listed: list[str] = json.loads(found)
        return listed

    assert words("ENTRYPOINT") == ["mnserve"]
    settings: ServeSettings = parse(words("CMD"))
    assert (settings.host, settings.repository) == ("0.0.0.0", "/models")
    assert ("CUDAExecutionProvider" in settings.engine_options.providers) == (kind == "gpu")
    program, *command = words("HEALTHCHECK")
    health: HealthSettings = parse(command)
    assert program == "mnserve"
    assert health.url == f"127.0.0.1:{settings.grpc_port}"
    assert re.findall(r"^EXPOSE (.*)$", text, flags=re.MULTILINE) == [f"{settings.grpc_port} {settings.metrics_port}"]


def test_all_images_are_of_this_version_and_user(rendered: dict[str, Any], kserve_objects: dict[str, Any]) -> None:
    texts = [file.read_text() for file in (DEPLOY / "docker").glob("*.Dockerfile")]
    users = {user for text in texts for user in re.findall(r"^USER (\d+):\d+$", text, flags=re.MULTILINE)}
    pods = [item["spec"]["template"]["spec"] for item in rendered["base"] if item["kind"] == "Deployment"]
    pods.append(kserve_objects["custom-predictor"]["spec"]["predictor"])
    assert users == {str(pod["securityContext"]["runAsUser"]) for pod in pods}
    whole = "\n".join(file.read_text() for file in DEPLOY.rglob("*") if file.is_file())
    tags = set(re.findall(r"mnserve:([\w.-]+)|newTag: ([\w.-]+)", whole))
    assert {tag for pair in tags for tag in pair if tag} == {
        f"{version('mn-runtime')}-{kind}" for kind in ("cpu", "gpu")
    }
