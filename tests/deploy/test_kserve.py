"""The objects for KServe keep to the models that KServe publishes."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

KINDS = {
    "cluster-serving-runtime": ("serving.kserve.io/v1alpha1", "V1alpha1ClusterServingRuntime"),
    "custom-predictor": ("serving.kserve.io/v1beta1", "V1beta1InferenceService"),
    "inference-service": ("serving.kserve.io/v1beta1", "V1beta1InferenceService"),
    "scaled": ("serving.kserve.io/v1beta1", "V1beta1InferenceService"),
}
SERVICE = "headless"
"""An object of Kubernetes."""


@pytest.fixture(scope="module")
def models() -> Any:
    """The module beside this one, which is in no package."""
    spec = importlib.util.spec_from_file_location("published_models", Path(__file__).with_name("published_models.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if module.models_folder() is None:
        pytest.skip("the package kserve, which has the models, is not installed")
    return module


def test_every_object_keeps_to_the_published_models(models: Any, kserve_objects: dict[str, Any]) -> None:
    assert kserve_objects.keys() == {*KINDS, SERVICE}
    for name, (version, kind) in KINDS.items():
        item = kserve_objects[name]
        assert (item["apiVersion"], item["kind"]) == (version, kind.removeprefix("V1alpha1").removeprefix("V1beta1"))
        assert list(models.faults(item, kind)) == [], name


def test_the_models_refuse_what_does_not_exist(models: Any, kserve_objects: dict[str, Any]) -> None:
    broken = copy.deepcopy(kserve_objects["custom-predictor"])
    predictor = broken["spec"]["predictor"]
    predictor["minReplicas"] = "two"
    predictor["replicas"] = 2
    predictor["containers"][0]["readinessProbe"]["grcp"] = {"port": 8001}
    found = list(models.faults(broken, "V1beta1InferenceService"))
    assert len(found) == 3, found
    scaled = copy.deepcopy(kserve_objects["scaled"])
    scaling = scaled["spec"]["predictor"]["autoScaling"]
    scaling["behavior"]["scaleDown"]["stabilisationWindowSeconds"] = 300
    scaling["metrics"][0]["external"]["metric"]["url"] = "http://prometheus"
    assert len(list(models.faults(scaled, "V1beta1InferenceService"))) == 2
    runtime = copy.deepcopy(kserve_objects["cluster-serving-runtime"])
    runtime["spec"]["securityContext"] = {"runAsNonRoot": True}  # of a pod; a runtime has it in its container
    assert len(list(models.faults(runtime, "V1alpha1ClusterServingRuntime"))) == 1


def test_clients_reach_all_pods_by_the_headless_service(kserve_objects: dict[str, Any]) -> None:
    """KServe gives pods of plain Deployments the label `app: isvc.NAME-predictor`, and its Service one address."""
    service, runtime = kserve_objects[SERVICE], kserve_objects["cluster-serving-runtime"]["spec"]
    kubernetes_validate.validate(service, "1.37", strict=True)
    assert service["spec"]["clusterIP"] == "None"
    name = kserve_objects["inference-service"]["metadata"]["name"]
    assert service["spec"]["selector"] == {"app": f"isvc.{name}-predictor"}
    (port,) = service["spec"]["ports"]
    ports = [item["containerPort"] for item in runtime["containers"][0]["ports"]]
    assert port["port"] == port["targetPort"] == ports[0]
    page = (Path(__file__).parents[2] / "docs/serving/kubernetes.md").read_text()
    assert f"dns:///{service['metadata']['name']}.models.svc.cluster.local:{port['port']}" in page


def test_pods_are_plain_and_scale_by_waiting_calls_alone(
    kserve_objects: dict[str, Any], rendered: dict[str, Any]
) -> None:
    for name in ("custom-predictor", "inference-service", "scaled"):
        annotations = kserve_objects[name]["metadata"]["annotations"]
        assert annotations["serving.kserve.io/deploymentMode"] == "RawDeployment"  # which all versions know
        predictor = kserve_objects[name]["spec"]["predictor"]
        by_keda = annotations.get("serving.kserve.io/autoscalerClass") == "keda"
        assert by_keda == ("autoScaling" in predictor) == (predictor["minReplicas"] < predictor["maxReplicas"])
    (scaler,) = [item for item in rendered["autoscaling"] if item["kind"] == "HorizontalPodAutoscaler"]
    scaled = kserve_objects["scaled"]["spec"]["predictor"]
    assert {key: scaled[key] for key in ("minReplicas", "maxReplicas")}.items() <= scaler["spec"].items()
    (metric,), (other,) = scaled["autoScaling"]["metrics"], scaler["spec"]["metrics"]
    assert other["pods"]["metric"]["name"] in metric["external"]["metric"]["query"]
    assert metric["external"]["target"]["value"] == other["pods"]["target"]["averageValue"]
    for direction, rules in scaled["autoScaling"]["behavior"].items():
        assert rules.items() <= scaler["spec"]["behavior"][direction].items()


def test_volumes_of_models_are_those_that_the_loader_fills(
    kserve_objects: dict[str, Any], rendered: dict[str, Any]
) -> None:
    (claim,) = [item for item in rendered["loader"] if item["kind"] == "PersistentVolumeClaim"]
    uri = f"pvc://{claim['metadata']['name']}/"
    for name in ("inference-service", "scaled"):
        assert kserve_objects[name]["spec"]["predictor"]["model"]["storageUri"] == uri
    (variable,) = kserve_objects["custom-predictor"]["spec"]["predictor"]["containers"][0]["env"]
    assert variable == {"name": "STORAGE_URI", "value": uri}
