"""The objects for KServe keep to the models that KServe publishes."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

KINDS = {
    "cluster-serving-runtime": ("serving.kserve.io/v1alpha1", "V1alpha1ClusterServingRuntime"),
    "custom-predictor": ("serving.kserve.io/v1beta1", "V1beta1InferenceService"),
    "inference-service": ("serving.kserve.io/v1beta1", "V1beta1InferenceService"),
}


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
    assert kserve_objects.keys() == KINDS.keys()
    for name, item in kserve_objects.items():
        version, kind = KINDS[name]
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
    runtime = copy.deepcopy(kserve_objects["cluster-serving-runtime"])
    runtime["spec"]["securityContext"] = {"runAsNonRoot": True}  # of a pod; a runtime has it in its container
    assert len(list(models.faults(runtime, "V1alpha1ClusterServingRuntime"))) == 1
