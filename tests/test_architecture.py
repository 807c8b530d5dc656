"""Pins the order of packages and rooms: imports run down, never up or in circles, and no room is overfull."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from code_structure.class_names import repeated_class_names
from code_structure.floors import FLOORS
from code_structure.report import MAX_FILES_PER_FOLDER, MAX_REPEATED_CLASS_NAMES
from code_structure.rooms import RoomReport, check_rooms
from code_structure.sources import files_per_folder

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


@pytest.fixture(scope="module", params=PACKAGES)
def rooms(request: pytest.FixtureRequest) -> RoomReport:
    """One package held against its floors in benchmarks/code_structure/floors.py."""
    package: str = request.param
    return check_rooms(ROOT, package, FLOORS[package])


def test_every_package_has_floors() -> None:
    assert set(FLOORS) == set(PACKAGES)


def test_every_room_stands_on_one_floor(rooms: RoomReport) -> None:
    assert (rooms.unplaced, rooms.missing) == ([], [])
    names = [name for floor in FLOORS[rooms.package] for name in floor]
    assert sorted(names) == sorted(set(names))


def test_no_import_runs_up_between_rooms(rooms: RoomReport) -> None:
    assert [str(edge) for edge in rooms.upward] == []


def test_no_modules_import_one_another_in_a_circle(rooms: RoomReport) -> None:
    assert rooms.module_circles == [], "\n".join(map(str, rooms.circular))


def test_no_rooms_import_one_another_in_a_circle(rooms: RoomReport) -> None:
    assert rooms.room_circles == [], "\n".join(map(str, rooms.circular_rooms))


def test_no_folder_is_overfull() -> None:
    counts = files_per_folder(ROOT, (*PACKAGES, "tests", "benchmarks"))
    assert {folder: files for folder, files in counts.items() if files > MAX_FILES_PER_FOLDER} == {}


def test_few_class_names_are_used_twice() -> None:
    repeated = repeated_class_names(ROOT, PACKAGES)
    assert len(repeated) <= MAX_REPEATED_CLASS_NAMES, repeated


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


@pytest.mark.parametrize(
    ("library", "owners"),
    [
        ("onnxruntime", {"mnserve/engines/runtime.py", "mnexport/runtime.py", "mntrain/networks/runtime.py"}),
        ("transformers", {"mntrain/networks/libraries.py"}),
        ("timm", {"mntrain/networks/libraries.py"}),
        ("datasets", {"mntrain/data/hugging_face.py"}),
        ("pytorch_lightning", {"mntrain/training/lightning_loggers.py"}),  # imports mlflow and wandb
        ("wandb", {"mntrain/training/lightning_loggers.py"}),
        ("huggingface_hub", {"mntrain/hugging_face_hub.py", "mnserve/object_store/libraries.py"}),
        ("ray", {"mnserve/distributed/runtime.py"}),
    ],
)
def test_libraries_that_report_usage_are_imported_where_that_is_switched_off(library: str, owners: set[str]) -> None:
    files = [file for folder in (*PACKAGES, "benchmarks", "examples", "protos") for file in modules(folder)]
    assert {str(file.relative_to(ROOT)) for file in files if library in imported(file)} == owners


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
    """Waiting, durations and expiry use a monotonic clock: the time of day can be set."""
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
def test_only_package_roots_list_public_names(package: str) -> None:
    """One rule for ``__all__``: a module's public names are those without an underscore."""
    lists = {
        str(file.relative_to(ROOT))
        for file in modules(package)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id == "__all__"
    }
    assert lists == {f"{package}/__init__.py"}


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
