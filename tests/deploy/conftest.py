"""The manifests of deploy/, as Kubernetes would get them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGE = DEPLOY.parent / "docs/serving/kubernetes.md"
OVERLAYS = ("base", "autoscaling", "gpu", "http", "loader", "object-storage", "secured")


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Overlay -> its objects, as kustomize renders them; `mine` is the documented one, of all components."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl, which has kustomize in it")
    folder = tmp_path_factory.mktemp("deploy") / "kubernetes"
    shutil.copytree(DEPLOY / "kubernetes", folder)
    (own,) = re.findall(
        r"^```yaml\n(# deploy/kubernetes/mine/.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    (folder / "mine").mkdir()
    (folder / "mine" / "kustomization.yaml").write_text(own)
    found = {}
    for name in (*OVERLAYS, "mine"):
        command = [kubectl, "kustomize", str(folder / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found[name] = list(yaml.safe_load_all(done.stdout))
    return found


@pytest.fixture(scope="session")
def kserve_objects() -> dict[str, dict[str, Any]]:
    """File -> its object of KServe."""
    return {file.stem: yaml.safe_load(file.read_text()) for file in (DEPLOY / "kserve").glob("*.yaml")}
