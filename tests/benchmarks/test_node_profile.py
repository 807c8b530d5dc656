"""benchmarks/node_profile.py: files of the named models, and a column for each."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

Write = Callable[..., Path]
Run = Callable[..., Any]


@pytest.fixture
def write(onnx_model: Write) -> Write:
    """Write a model of some kinds of nodes, one after the other."""

    def make(name: str, *kinds: str, datatype: str = "FLOAT") -> Path:
        names = ["x", *(f"t{place}" for place in range(1, len(kinds))), "y"]
        nodes = [(kind, [names[place]], [names[place + 1]]) for place, kind in enumerate(kinds)]
        tensor = (datatype, ["batch", 4])
        return onnx_model(name, nodes, {"x": tensor}, {"y": tensor})

    return make


def test_models_of_one_name_have_a_column_each(run_script: Run, write: Write, tmp_path: Path) -> None:
    model = write("m", "Exp")
    other = Path(shutil.copytree(write("n", "Sin", "Cos"), tmp_path / "other" / "m"))
    done = run_script("node_profile", model, other, "--runs", 2, "--json", tmp_path / "profile.json")
    assert done.code == 0, done.stderr
    found = json.loads((tmp_path / "profile.json").read_text())
    assert {name: {kind: count for kind, (count, _) in kinds.items()} for name, kinds in found.items()} == {
        str(model): {"Exp": 1},
        str(other): {"Sin": 1, "Cos": 1},
    }
    assert list(found) == [str(model), str(other)]
    (row,) = [line for line in done.stdout.splitlines() if "all" in line]
    assert row.rstrip("│ ").endswith("(100%)")  # of the last model


def test_nodes_in_a_loop_count_as_often_as_they_run_and_the_loop_itself_not_at_all(
    run_script: Run, tmp_path: Path
) -> None:
    row = helper.make_tensor_value_info("row", TensorProto.FLOAT, [4])
    step = helper.make_tensor_value_info("step", TensorProto.FLOAT, [4])
    body = helper.make_graph([helper.make_node("Exp", ["row"], ["step"])], "body", [row], [step])
    nodes = [
        helper.make_node("Scan", ["x"], ["t"], num_scan_inputs=1, body=body),
        helper.make_node("Sin", ["t"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, str(tmp_path / "m.onnx"))
    figures = tmp_path / "profile.json"
    done = run_script("node_profile", tmp_path / "m.onnx", "--runs", 3, "--batch", 5, "--json", figures)
    assert done.code == 0, done.stderr
    (kinds,) = json.loads(figures.read_text()).values()
    assert {kind: count for kind, (count, _) in kinds.items()} == {"Exp": 5, "Sin": 1}


def test_the_file_that_is_named_is_profiled(run_script: Run, write: Write, tmp_path: Path) -> None:
    model, plain = write("m", "Exp"), write("n", "Sin")
    shutil.copy(write("o", "Cos") / "1" / "model.onnx", model / "1" / "cpu.onnx")
    figures = tmp_path / "profile.json"
    for words, wanted in (
        ((model,), {"m": "Exp"}),
        ((model, "--file", "cpu.onnx"), {"m": "Cos"}),
        ((model / "1" / "cpu.onnx", plain), {"m/1/cpu.onnx": "Cos", "n": "Sin"}),
        ((model, model / "1" / "cpu.onnx"), {"m": "Exp", "m/1/cpu.onnx": "Cos"}),
    ):
        done = run_script("node_profile", *words, "--runs", 1, "--json", figures)
        assert done.code == 0, done.stderr
        assert {name: "".join(kinds) for name, kinds in json.loads(figures.read_text()).items()} == wanted


def test_a_file_that_is_not_there_is_not_replaced_by_another(run_script: Run, write: Write, tmp_path: Path) -> None:
    model = write("m", "Exp")
    for words, message in (
        (("--file", "cpu.onnx"), f"{model} has no 1/cpu.onnx but model.onnx; what"),
        ((tmp_path / "gone",), f"there is no {tmp_path / 'gone'}"),
        ((tmp_path,), "has no 1/model.onnx but no ONNX file"),
        ((model / "1" / "model.onnx",), "model.onnx is given twice"),
        ((model.parent / "." / "m",), "is given twice"),
        ((write("ints", "Neg", datatype="INT64"),), "takes tensor(int64); only tensor(uint8), tensor(float)"),
        (("--runs", "0"), "argument --runs: '0' is not a whole number above 0"),
        (("--batch", "1.5"), "argument --batch: '1.5' is not a whole number above 0"),
    ):
        done = run_script("node_profile", model, *words)
        assert (done.code, done.stdout) == (2, "")
        assert message in done.stderr
    file = model / "1" / "model.onnx"
    assert "--file is 'cpu.onnx', but no folder" in run_script("node_profile", file, "--file", "cpu.onnx").stderr
    file.write_bytes(b"garbage")
    assert f"ONNX Runtime cannot load {file}: " in run_script("node_profile", model).stderr
