"""The manifests of deploy/, as Kubernetes would get them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = ("base", "autoscaling", "gpu", "object-storage", "secured")


@pytest.fixture(scope="session")
def rendered() -> dict[str, list[dict[str, Any]]]:
    """Overlay -> its objects, as kustomize renders them."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl, which has kustomize in it")
    found = {}
    for name in OVERLAYS:
        command = [kubectl, "kustomize", str(DEPLOY / "kubernetes" / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found[name] = list(yaml.safe_load_all(done.stdout))
    return found


@pytest.fixture(scope="session")
def kserve_objects() -> dict[str, dict[str, Any]]:
    """File -> its object of KServe."""
    return {file.stem: yaml.safe_load(file.read_text()) for file in (DEPLOY / "kserve").glob("*.yaml")}
