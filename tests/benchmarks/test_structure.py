"""Counts of the source, on a package made for it; the tracer, on functions made for it; the script, on this source."""

import importlib.util
import json
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from subprocess import run
from types import ModuleType

import pytest
from code_structure.circles import find_circles
from code_structure.class_names import repeated_class_names
from code_structure.imports import Import, package_imports
from code_structure.report import Count, StaticCounts, Structure
from code_structure.rooms import Floors, check_rooms
from code_structure.sources import files_per_folder
from code_structure.tracer import CallTracer, path_of

ROOT = Path(__file__).parents[2]
FLOORS = (("commands",), ("models",), ("models.options", "files"))


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Holds one package, whose imports all run down."""
    write(
        tmp_path,
        {
            "made/__init__.py": "",
            "made/__main__.py": "from made.commands import run",
            "made/commands/__init__.py": "from made.commands.main import run",
            "made/commands/main.py": "def run():\n    from made.models.small import Small",
            "made/models/__init__.py": "",
            "made/models/small.py": "from ..files import read\nfrom made.models import options\nclass Small: ...",
            "made/models/options.py": "import made.files",
            "made/models/options_pb2.py": "class Small: ...",
            "made/files.py": "import os",
        },
    )
    return tmp_path


def test_a_package_in_order_has_no_findings(source: Path) -> None:
    report = check_rooms(source, "made", FLOORS)
    assert package_imports(source, "made") == [
        Import(importer="made.__main__", imported="made.commands", line=1),
        Import(importer="made.commands", imported="made.commands.main", line=1),
        Import(importer="made.commands.main", imported="made.models.small", line=2),
        Import(importer="made.models.options", imported="made.files", line=1),
        Import(importer="made.models.small", imported="made.files", line=1),
        Import(importer="made.models.small", imported="made.models.options", line=2),
    ]
    assert (report.upward, report.module_circles, report.room_circles) == ([], [], [])
    assert (report.unplaced, report.missing) == ([], [])
    assert repeated_class_names(source, ("made",)) == {}
    assert files_per_folder(source, ("made", "gone")) == {"made": 2, "made/models": 2, "made/commands": 1}


@pytest.mark.parametrize(
    ("text", "types_only"),
    [
        ("from made.commands.main import run", False),
        ("def read():\n    import made.commands.main", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.commands import main", True),
        ("LAZY = {'run': 'made.commands.main'}", False),
        ("from .commands import main", False),
    ],
    ids=["plain", "in a function", "for types", "by name", "relative"],
)
def test_an_upward_import_and_its_circle_are_reported(source: Path, text: str, types_only: bool) -> None:
    write(source, {"made/files.py": text})
    report = check_rooms(source, "made", FLOORS)
    line = len(text.splitlines())
    assert report.upward == [
        Import(importer="made.files", imported="made.commands.main", line=line, types_only=types_only)
    ]
    circle = ["made.commands.main", "made.files", "made.models.options", "made.models.small"]
    assert report.module_circles == [circle]
    assert report.room_circles == [["commands", "files", "models", "models.options"]]
    assert {edge.importer for edge in report.circular} == set(circle)


def test_a_command_of_another_process_is_no_import(source: Path) -> None:
    write(source, {"made/files.py": "import sys\nCOMMAND = [sys.executable, '-m', 'made.commands.main', 'fit']"})
    assert check_rooms(source, "made", FLOORS).upward == []


def test_a_circle_within_a_room_runs_up_nowhere(source: Path) -> None:
    write(source, {"made/models/large.py": "import made.models.small", "made/models/small.py": "from . import large"})
    report = check_rooms(source, "made", FLOORS)
    assert report.module_circles == [["made.models.large", "made.models.small"]]
    assert (report.upward, report.room_circles) == ([], [])


def test_rooms_without_a_floor_and_floors_without_a_room_are_reported(source: Path) -> None:
    write(source, {"made/texts/names.py": ""})
    report = check_rooms(source, "made", (*FLOORS, ("protocol",)))
    assert (report.unplaced, report.missing) == (["texts"], ["protocol"])


def test_an_entry_with_a_dot_takes_a_module_out_of_its_room() -> None:
    floors = Floors(package="made", floors=FLOORS)
    rooms = {name: floors.room_of(name) for name in ("made", "made.models.options", "made.models.options_text")}
    assert rooms == {"made": "(root)", "made.models.options": "models.options", "made.models.options_text": "models"}


def test_circles_are_told_apart() -> None:
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a", "f"}}
    assert find_circles(graph) == [["a", "b"], ["c", "d", "e"]]


def test_counts_above_their_limits_are_marked(source: Path) -> None:
    write(source, {f"made/models/kind{number}.py": "class Kind: ..." for number in range(24)})
    write(source, {"made/files.py": "import made.commands.main"})
    names = repeated_class_names(source, ("made",))
    assert names["Kind"][:2] == ["made/models/kind0.py:1", "made/models/kind1.py:1"]
    static = StaticCounts(
        folders=files_per_folder(source, ("made",)),
        rooms=[check_rooms(source, "made", FLOORS)],
        class_names=dict.fromkeys("ABCD", names["Kind"]),
    )
    structure = Structure(static=static)
    exceeded = {count.name: count.value for count in structure.counts() if count.exceeded}
    assert exceeded == {
        "files in the fullest folder": 26,
        "imports that run up in made": 1,
        "circles of modules in made": 1,
        "circles of rooms in made": 1,
        "repeated class names": 4,
    }
    text = structure.to_text()
    assert text.isascii()
    assert "made/models       26  ABOVE" in text
    assert "made.files:1 imports made.commands.main" in text


WORK = """
from dataclasses import dataclass
from threading import Thread
from traced.other import double, forgotten

@dataclass
class Point:
    x: int

    @property
    def size(self):
        return double(self.x)

class Worker(Thread):
    def run(self):
        Point(x=1).size

def work():
    worker = Worker()
    worker.start()
    worker.join()
    return [double(number) for number in (1, 2)] + list(map(lambda number: number, [3]))
"""


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    write(
        tmp_path, {"traced/other.py": "def double(x):\n    return 2 * x\ndef forgotten(): ...", "traced/work.py": WORK}
    )
    for name in ("other", "work"):
        spec = importlib.util.spec_from_file_location(f"traced.{name}", tmp_path / "traced" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


def test_the_tracer_sees_all_threads_and_nothing_else(traced: ModuleType, tmp_path: Path) -> None:
    tracer = CallTracer(tmp_path, ["traced"])
    earlier = sys.getprofile(), threading.getprofile()
    with tracer.installed():
        traced.forgotten()
        with tracer.recording():
            traced.work()
        traced.forgotten()
    assert (sys.getprofile(), threading.getprofile()) == earlier
    path = tracer.path()
    assert {item.file: item.functions for item in path.files} == {
        "traced/work.py": ("work", "Worker.run", "Point.size"),
        "traced/other.py": ("double",),
    }
    assert path.functions == 4
    without = tracer.path(background=frozenset({("traced/other.py", "double")}))
    assert [item.file for item in without.files] == ["traced/work.py"]
    assert (without.changes, path.calls - without.calls) == (0, 3)


def test_changes_of_file_and_files_below_the_commands_are_counted() -> None:
    calls = [("made/cli.py", "main"), ("made/fit.py", "fit"), ("made/fit.py", "step"), ("made/cli.py", "main")]
    path = path_of([*calls, ("made/commands/fit.py", "run")])
    assert (len(path.files), path.below_commands, path.functions, path.changes) == (3, ["made/fit.py"], 4, 3)


def test_a_count_without_a_limit_is_never_above_it() -> None:
    assert not Count(name="files", value=1000, limit=None).exceeded
    assert Count(name="files", value=1, limit=0).exceeded


def test_one_inference_passes_the_engine_and_no_loading(tmp_path: Path) -> None:
    words = ["benchmarks/structure.py", "--only", "static", "inference", "--json", str(tmp_path / "structure.json")]
    done = run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode in (0, 1), done.stderr
    record = json.loads((tmp_path / "structure.json").read_text())
    assert done.returncode == any(count["exceeded"] for count in record["counts"])
    files = {item["file"]: item["functions"] for item in record["paths"]["inference"]["files"]}
    assert "OnnxRuntimeEngine.run" in files["mnserve/engines/onnxruntime.py"]
    assert not {"mnserve/server.py", "mnserve/settings.py"} & files.keys()
    functions = [name for names in files.values() for name in names]
    assert "Servicer.answer_known" in functions
    assert not [name for name in functions if name.startswith(("MetricsHTTPServer", "Health", "Poller"))]
    assert {report["package"] for report in record["static"]["rooms"]} == {"mntrain", "mnexport", "mnserve"}
