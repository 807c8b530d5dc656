"""The rooms and who may enter them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("mntrain", "mnexport", "mnserve")
ALLOWED = {"mntrain": {"mntrain"}, "mnexport": {"mnexport", "mntrain"}, "mnserve": {"mnserve"}}
# What a serving machine never installs.
TRAINING_ONLY = {"torch", "lightning_fabric", "torchmetrics", "datasets", "kornia", "sklearn", "safetensors", "onnx"}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    wrong = {
        str(file.relative_to(ROOT)): sorted(found)
        for file in modules(package)
        if (found := imported(file) & set(PACKAGES) - ALLOWED[package])
    }
    assert wrong == {}


def test_the_conformance_suite_knows_servers_by_their_protocol_only() -> None:
    files = sorted((ROOT / "tests" / "conformance").rglob("*.py"))
    assert files
    wrong = {file.name: sorted(found) for file in files if (found := imported(file) & set(PACKAGES))}
    assert wrong == {}


def test_serving_names_nothing_that_only_training_installs() -> None:
    wrong = {
        str(file.relative_to(ROOT)): sorted(found)
        for file in modules("mnserve")
        if (found := imported(file) & TRAINING_ONLY)
    }
    assert wrong == {}


def test_importing_all_of_mnserve_loads_no_torch() -> None:
    names = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for file in modules("mnserve")
        if file.name != "__main__.py"
    ]
    script = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
loaded = sorted({TRAINING_ONLY!r} & sys.modules.keys())
sys.exit(f"importing mnserve loaded {{loaded}}" if loaded else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_serving_asks_for_the_time_of_day_only_where_a_date_is_wanted() -> None:
    """Whatever waits, counts or expires goes by a monotonic clock: clocks of the wall are set."""
    wall = {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime", "ctime"}
    found = {
        str(file.relative_to(ROOT / "mnserve"))
        for file in modules("mnserve")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in wall
        and isinstance(node.value, ast.Name)
        and node.value.id in {"time", "datetime", "date"}
    }
    assert found == {"models/statistics.py", "observability/tracing.py"}


@pytest.mark.parametrize("package", PACKAGES)
def test_init_files_only_re_export(package: str) -> None:
    for file in modules(package):
        if file.name == "__init__.py":
            body = ast.parse(file.read_text(encoding="utf-8")).body
            allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr)
            assert all(isinstance(node, allowed) for node in body), f"{file} holds code"


def test_no_file_outgrows_its_room() -> None:
    sizes = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for package in PACKAGES
        for file in modules(package)
        if "_pb2" not in file.name
    }
    assert {name: size for name, size in sizes.items() if size > 400} == {}
