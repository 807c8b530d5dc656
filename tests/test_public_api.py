"""Test the public names of the three packages: pinned, documented, and free to import."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import mnexport
import mntrain

ROOT = Path(__file__).parents[1]
PUBLIC = {
    "mntrain": [
        "ExperimentConfig",
        "FitOptions",
        "MnTrainError",
        "evaluate",
        "features",
        "fit",
        "head",
        "load_artifact",
        "load_experiment",
    ],
    "mnexport": ["ExportOptions", "MnExportError", "Target", "export"],
    "mnserve": [
        "ClassPredictions",
        "Client",
        "LocalModel",
        "MnServeError",
        "ServeSettings",
        "Server",
        "ValuePredictions",
    ],
}
HEAVY = ("torch", "numpy", "grpc", "onnx", "onnxruntime", "datasets", "matplotlib", "jsonargparse")


@pytest.mark.parametrize("package", PUBLIC)
def test_the_public_names_are_pinned(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(module.__all__) == PUBLIC[package]
    assert set(PUBLIC[package]) <= set(dir(module))


@pytest.mark.parametrize(("package", "name"), [(package, name) for package in PUBLIC for name in PUBLIC[package]])
def test_each_public_name_loads_and_has_a_docstring(package: str, name: str) -> None:
    value = getattr(importlib.import_module(package), name)
    assert value.__module__.startswith(f"{package}.")
    assert value.__name__ == name
    assert value.__doc__


def test_options_take_paths_as_text() -> None:
    target = mnexport.Target(repository="repository", name="m")
    assert target.folder == Path("repository/m")
    assert mnexport.ExportOptions(artifact="artifact", target=target).artifact == Path("artifact")
    assert mntrain.FitOptions(runs="runs").runs == Path("runs")


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        importlib.import_module("mnserve").nothing_of_this_name  # noqa: B018


@pytest.mark.parametrize("package", PUBLIC)
def test_importing_a_package_loads_no_library_that_takes_time(package: str) -> None:
    script = f"import sys, {package}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_public_names_of_serving_load_no_torch() -> None:
    script = "import sys; from mnserve import *; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(("package", "name"), [(package, name) for package in PUBLIC for name in PUBLIC[package]])
def test_each_public_name_is_shown_in_the_documentation(package: str, name: str) -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert f"{package}.{name}" in text or f"`{name}`" in text
