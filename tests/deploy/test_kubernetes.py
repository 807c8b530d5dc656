"""The manifests for Kubernetes: published schemas, and agreement of what one says with what the others say."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGES = [DEPLOY.parent / "docs/serving" / name for name in ("beyond-one-machine.md", "kubernetes.md")]
VERSIONS = ("1.27", "1.37")
"""The oldest Kubernetes whose gRPC probes are stable, and a new one."""
FOREIGN = {"PodMonitor"}
"""Kinds that Kubernetes itself does not have."""
OVERLAYS = ("base", "autoscaling", "gpu", "http", "object-storage", "secured", "mine")
COMPONENTS = DEPLOY / "kubernetes/components"
Objects = list[dict[str, Any]]


def of_kind(objects: Objects, kind: str) -> Objects:
    return [item for item in objects if item["kind"] == kind]


def the(objects: Objects, kind: str) -> dict[str, Any]:
    (item,) = of_kind(objects, kind)
    return item


def pod_of(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = the(objects, "Deployment")["spec"]["template"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", [*OVERLAYS, "loader"])
def test_every_manifest_keeps_to_the_published_schema(rendered: dict[str, Objects], overlay: str, version: str) -> None:
    assert len(rendered[overlay]) >= (2 if overlay == "loader" else 6)
    for item in rendered[overlay]:
        if item["kind"] not in FOREIGN:
            kubernetes_validate.validate(item, version, strict=True)


def test_the_schema_refuses_a_field_that_does_not_exist(rendered: dict[str, Objects]) -> None:
    broken = copy.deepcopy(the(rendered["base"], "Deployment"))
    broken["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["grcp"] = {"port": 8001}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_all_that_selects_pods_selects_these(rendered: dict[str, Objects], overlay: str) -> None:
    objects = rendered[overlay]
    labels = pod_of(objects)["metadata"]["labels"].items()
    assert labels
    selectors = [service["spec"]["selector"] for service in of_kind(objects, "Service")]
    for kind in ("Deployment", "PodDisruptionBudget", "PodMonitor"):
        selectors += [item["spec"]["selector"]["matchLabels"] for item in of_kind(objects, kind)]
    selectors += [item["spec"]["podSelector"]["matchLabels"] for item in of_kind(objects, "NetworkPolicy")]
    spread = pod_of(objects)["spec"]["topologySpreadConstraints"]
    selectors += [item["labelSelector"]["matchLabels"] for item in spread]
    assert len(selectors) >= 7
    assert all(selector and selector.items() <= labels for selector in selectors)


def test_callers_of_other_kinds_of_pods_are_let_in(rendered: dict[str, Objects]) -> None:
    """A label that is added to every selector would let in the server's own pods alone."""
    calls, metrics = the(rendered["base"], "NetworkPolicy")["spec"]["ingress"]
    assert calls["from"] == [{"podSelector": {"matchLabels": {"mnserve-client": "true"}}}]
    assert calls["ports"] == [{"port": "grpc"}]
    assert metrics["ports"] == [{"port": "metrics"}]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pod_has_no_right_that_it_does_not_need(rendered: dict[str, Objects], overlay: str) -> None:
    pod = pod_of(rendered[overlay])["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] >= 10000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"].keys() >= {"cpu", "memory"}
    writable = [item["mountPath"] for item in container["volumeMounts"] if not item.get("readOnly")]
    assert writable == ["/tmp"]
    assert {item["name"] for item in container["volumeMounts"]} == {item["name"] for item in pod["volumes"]}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_services_name_ports_that_the_pod_has(rendered: dict[str, Objects], overlay: str) -> None:
    ports = {
        item["name"]: item["containerPort"] for item in pod_of(rendered[overlay])["spec"]["containers"][0]["ports"]
    }
    services = of_kind(rendered[overlay], "Service")
    assert {item["spec"].get("clusterIP") for item in services} == {None, "None"}
    for port in (port for item in services for port in item["spec"]["ports"]):
        assert ports[port["targetPort"]] == port["port"]
    for monitor in of_kind(rendered[overlay], "PodMonitor"):
        assert {item["port"] for item in monitor["spec"]["podMetricsEndpoints"]} == {"metrics"}


def test_the_autoscaler_reads_the_metric_that_the_adapter_makes(rendered: dict[str, Objects]) -> None:
    scaler = the(rendered["autoscaling"], "HorizontalPodAutoscaler")["spec"]
    deployment = the(rendered["autoscaling"], "Deployment")
    assert scaler["scaleTargetRef"] == {key: deployment[key] for key in ("apiVersion", "kind")} | {
        "name": deployment["metadata"]["name"]
    }
    assert "replicas" not in deployment["spec"]  # else each `kubectl apply` would undo the autoscaler's number
    (metric,) = scaler["metrics"]
    (rule,) = yaml.safe_load((DEPLOY / "kubernetes/components/autoscaling/adapter.yaml").read_text())["rules"]["custom"]
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]
    assert rule["seriesQuery"].startswith(rule["name"]["as"] + "{")


def test_the_overlay_for_gpus_asks_for_one_and_computes_on_it(rendered: dict[str, Objects]) -> None:
    (container,) = pod_of(rendered["gpu"])["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert container["image"].endswith("-gpu")
    assert {"name": "MNSERVE_PROVIDERS", "value": "cuda"} in container["env"]


def test_every_component_is_in_an_overlay_of_its_name_and_in_the_documented_one(rendered: dict[str, Objects]) -> None:
    names = sorted(folder.name for folder in COMPONENTS.iterdir())
    assert names == ["autoscaling", "gpu", "http", "object-storage", "secured"]
    own = {(item["kind"], item["metadata"]["name"].partition("-options-")[0]) for item in rendered["mine"]}
    for name in names:
        text = yaml.safe_load((COMPONENTS / name / "kustomization.yaml").read_text())
        assert text["kind"] == "Component"
        alone = {(item["kind"], item["metadata"]["name"].partition("-options-")[0]) for item in rendered[name]}
        assert alone - own <= {("PersistentVolumeClaim", "mnserve-models")}
        variables = {item["name"] for item in pod_of(rendered[name])["spec"]["containers"][0]["env"]}
        assert variables <= {item["name"] for item in pod_of(rendered["mine"])["spec"]["containers"][0]["env"]}
    (container,) = pod_of(rendered["mine"])["spec"]["containers"]
    assert container["image"] == "registry.example/mnserve:0.1.0-gpu"
    assert {item["metadata"]["namespace"] for item in rendered["mine"]} == {"models"}


def test_callers_may_call_by_http_where_it_is_on(rendered: dict[str, Objects]) -> None:
    for overlay in ("http", "mine"):
        calls, metrics = the(rendered[overlay], "NetworkPolicy")["spec"]["ingress"]
        assert calls["ports"] == [{"port": "grpc"}, {"port": "http"}]
        assert metrics["ports"] == [{"port": "metrics"}]
        for service in of_kind(rendered[overlay], "Service"):
            assert {"name": "http", "port": 8000, "targetPort": "http"} in service["spec"]["ports"]


def test_the_loader_may_write_what_the_server_reads(rendered: dict[str, Objects]) -> None:
    pod, server = the(rendered["loader"], "Pod"), pod_of(rendered["base"])
    assert the(rendered["loader"], "PersistentVolumeClaim") == the(rendered["base"], "PersistentVolumeClaim")
    (container,) = pod["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert mount == {"name": "models", "mountPath": "/models"}
    assert [item for item in server["spec"]["volumes"] if item["name"] == "models"] == [
        {"name": "models", "persistentVolumeClaim": {"claimName": "mnserve-models", "readOnly": True}}
    ]
    assert pod["spec"]["securityContext"] == server["spec"]["securityContext"]
    assert container["securityContext"] == server["spec"]["containers"][0]["securityContext"]
    assert container["image"] == server["spec"]["containers"][0]["image"]
    # No Service, no budget and no policy takes it for a server.
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] != server["metadata"]["labels"]["app.kubernetes.io/name"]


def test_certificates_are_asked_for_by_every_documented_name() -> None:
    """Clients check the name that they have dialled, so a short one in the certificate does not do for a long one."""
    comment = (COMPONENTS / "secured/kustomization.yaml").read_text().partition("apiVersion")[0]
    asked = set(re.findall(r"\b(?:localhost|mnserve(?:-pods)?\.[\w.]+)", comment))
    page = "\n".join(page.read_text() for page in PAGES)
    dialled = set(re.findall(r"(?:dns:///|grpcs://)((?:mnserve|localhost)[\w.-]*):\d+", page))
    assert "mnserve-pods.models.svc.cluster.local" in dialled
    assert dialled <= asked
    assert "localhost" in asked  # for the probes


def test_a_start_has_an_hour(rendered: dict[str, Objects], kserve_objects: dict[str, Any]) -> None:
    """The port opens once models are copied, loaded and warmed; a probe that gives up restarts a server that copies."""
    pods = [pod_of(rendered[overlay])["spec"] for overlay in OVERLAYS]
    pods += [kserve_objects["cluster-serving-runtime"]["spec"], kserve_objects["custom-predictor"]["spec"]["predictor"]]
    for probe in (container["startupProbe"] for pod in pods for container in pod["containers"]):
        assert probe["periodSeconds"] * probe["failureThreshold"] == 3600
    for overlay in OVERLAYS:
        assert the(rendered[overlay], "Deployment")["spec"]["progressDeadlineSeconds"] > 3600


def test_a_command_that_is_slow_once_takes_no_pod_out_of_service(rendered: dict[str, Objects]) -> None:
    for overlay in OVERLAYS:
        (container,) = pod_of(rendered[overlay])["spec"]["containers"]
        assert container["readinessProbe"]["failureThreshold"] >= 2
