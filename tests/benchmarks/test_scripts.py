"""The scripts that print the published figures still run, on a very small scale."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mntrain.commands.cli import main as mntrain

ROOT = Path(__file__).parents[2]


def run(*words: str) -> str:
    command = [sys.executable, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_training_cost_compares_every_variant_with_vanilla(tmp_path: Path) -> None:
    small = ["--batch", "4", "--size", "8", "--entries", "8", "--seconds", "0.05", "--rounds", "2", "--threads", "1"]
    words = ["benchmarks/training_cost.py", "--backbones", "convnet4", *small]
    out = run(*words, "--json", str(tmp_path / "cost.json"))
    models = json.loads((tmp_path / "cost.json").read_text())["backbones"]["convnet4"]
    assert [model["model"] for model in models] == ["vanilla", "MN, S = 8", "vanilla+iFiLM", "MN+iFiLM, S = 8"]
    assert models[0]["ratio"]["median"] == models[0]["memory_ratio"] == 1
    assert all(model["peak_bytes"] > 0 for model in models)
    assert "ratio to vanilla" in out


def test_gpu_training_runs_on_a_cpu_with_a_tiny_budget(run_script: Callable[..., Any], tmp_path: Path) -> None:
    words = [
        "--recipe",
        "digits",
        "--accelerator",
        "cpu",
        "--minutes",
        "0.02",
        "--probe",
        "128",
    ]
    small = ["--backbone.width", "0.1", "--meta_neighborhoods.entries", "8", "--data.train_limit", "256"]
    done = run_script("gpu_training", *words, *small, "--json", tmp_path / "gpu.json")
    assert done.code == 0, done.stderr
    models = json.loads((tmp_path / "gpu.json").read_text())["models"]
    assert [model["model"] for model in models] == ["vanilla", "MN+iFiLM"]
    assert all(model["images_per_second"] > 0 and model["epochs"] >= 1 for model in models)
    assert models[1]["unadapted_accuracy"] is not None
    assert "images/s" in done.stdout


def test_gpu_training_passes_the_data_path_on(run_script: Callable[..., Any], tmp_path: Path) -> None:
    """The command as the documentation has it, as far as a folder that is not there."""
    done = run_script("gpu_training", "--data.path", tmp_path / "cifar10", "--accelerator", "cpu")
    assert done.code == 1
    assert done.stderr.startswith("gpu_training: ")
    assert "cifar10" in done.stderr
    assert "Traceback" not in done.stderr
    assert "recipe" not in done.stderr


def test_training_cost_names_a_wrong_value(run_script: Callable[..., Any]) -> None:
    for words in (["--backbones", "convnet4x"], ["--entries", "x"], ["--entries", "0"]):
        done = run_script("training_cost", *words)
        assert done.code != 0
        assert words[1] in done.stderr
        assert "Traceback" not in done.stderr


def test_parity_table_has_a_cell_for_every_form_and_dtype(run_script: Callable[..., Any], tmp_path: Path) -> None:
    words = [
        str(tmp_path),
        "--only",
        "mn, spiral",
        "--epochs",
        "1",
        "--dtypes",
        "float32",
        "int8",
    ]
    done = run_script("parity_table", *words, "--json", tmp_path / "parity.json")
    assert done.code == 0, done.stderr
    records = json.loads((tmp_path / "parity.json").read_text())
    assert [(one["form"], one["dtype"]) for one in records] == [
        (form, dtype) for form in ("vanilla", "explicit", "factored", "low_rank") for dtype in ("float32", "int8")
    ]
    found = {(one["form"], one["dtype"]): one for one in records}
    assert all(0 < found[form, "float32"]["record"]["max_error"] < 1e-4 for form in ("vanilla", "explicit", "factored"))
    # Nothing is passed over in silence.
    assert "no convolution" in found["factored", "int8"]["missing"]
    assert found["low_rank", "float32"]["missing"] in done.stdout
    assert not any(one["failure"] for one in records)


def test_adaptive_price_and_node_profile_measure_exported_models(
    run_script: Callable[..., Any], tmp_path: Path
) -> None:
    small = ["--backbone.width", "0.1", "--meta_neighborhoods.entries", "8", "--data.train_limit", "256"]
    words = ["fit", "digits", "--name", "small", "--runs", str(tmp_path / "runs"), "--training.epochs", "1", *small]
    assert mntrain(words) == 0
    # A name of the published table: only models of that table are measured.
    (tmp_path / "runs" / "small" / "artifact").rename(tmp_path / "convnet4-10-5000")
    short = ["--seconds", "0.02", "--rounds", "2", "--json", str(tmp_path / "price.json")]
    done = run_script("adaptive_price", tmp_path, "--only", "convnet4-10-5000", *short)
    assert done.code == 0, done.stderr
    out = done.stdout
    price = json.loads((tmp_path / "price.json").read_text())["models"]["convnet4-10-5000"]
    assert [item["batch"] for item in price["bench"]["results"]] == [1, 8, 32]
    compared = [price["bench"]["settings"][name] for name in ("model", "against")]
    assert compared == ["convnet4-10-5000", "convnet4-10-5000-vanilla"]
    assert all(item["ratio"]["spread"]["median"] > 0 for item in price["bench"]["results"])
    assert "convnet4-10-5000" in out
    assert "1.40 / 1.15 / 1.15" in out
    acting = price["acting"]
    assert acting["entries"] == 8
    assert 0 <= acting["error"] <= 1e-3
    metrics = json.loads((tmp_path / "convnet4-10-5000" / "config.json").read_text())["metrics"]
    assert acting["weight_change"] == metrics["adaptation"]["weight_change"]
    rank = "–" if acting["rank"] is None else str(acting["rank"])
    assert f"{rank} of 8" in out
    assert (acting["rank"] is None) == (f"convnet4-10-5000, {price['form']}: {acting['reason']}" in out)

    models = [str(tmp_path / "repository" / name) for name in ("convnet4-10-5000", "convnet4-10-5000-vanilla")]
    done = run_script("node_profile", *models, "--runs", 3, "--json", tmp_path / "profile.json")
    assert done.code == 0, done.stderr
    adaptive, plain = json.loads((tmp_path / "profile.json").read_text()).values()
    assert adaptive["Conv"][0] == plain["Conv"][0] == 4
    assert adaptive["MatMul"][0] > plain["MatMul"][0]
    assert "MatMul" in done.stdout


def test_rank_margin_keeps_the_chosen_share_on_its_own_images(
    run_script: Callable[..., Any], runs: Path, tmp_path: Path
) -> None:
    words = [str(runs / "meta_neighborhoods" / "artifact"), "--shares", "0.5", "0.25", "--tolerance", "0.02"]
    done = run_script("rank_margin", *words, "--json", tmp_path / "margin.json")
    assert done.code == 0, done.stderr
    found = json.loads((tmp_path / "margin.json").read_text())
    assert [(one["share"], one["keys"]) for one in found] == [
        (share, keys) for share in (0.5, 0.25) for keys in ("float32", "int8")
    ]
    in_full = [one for one in found if one["keys"] == "float32"]
    assert all(0 < one["known"] <= one["share"] * 0.02 and one["test"] > 0 for one in in_full)
    assert in_full[0]["rank"] <= in_full[1]["rank"]
    assert "artifact's images" in done.stdout


def test_grpc_cancels_prints_the_memory_of_a_cancelled_call() -> None:
    out = run("-m", "soaking.grpc_cancels", "--rounds", "2", "--calls", "40")
    assert "round 2" in out
    assert "bytes a cancelled call" in out


@pytest.mark.skipif(shutil.which("h2load") is None, reason="needs h2load (Debian's package nghttp2-client)")
def test_front_ends_measures_every_named_way(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "m", rows[:1], rows[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    named = "raw, 1 thread;bare;mnserve;mnserve, 1 front end"
    few = ["--seconds", "0.3", "--rounds", "1", "--callers", "2", "--only", named]
    out = run("benchmarks/front_ends.py", str(tmp_path / "m.onnx"), *few)
    ways = {line.strip("│ ").split("│")[0].strip() for line in out.splitlines()}
    assert set(named.split(";")) <= ways


def test_many_models_measures_both_ways_to_open_them(tmp_path: Path) -> None:
    out = run("benchmarks/many_models.py", "--models", "2", "--json", str(tmp_path / "starts.json"))
    found = json.loads((tmp_path / "starts.json").read_text())["results"]
    assert list(found) == ["2 small networks", "1 network of large images"]
    for ways in found.values():
        assert list(ways) == ["ONNX Runtime alone", "mnserve serve"]
        for start in ways.values():
            assert start["seconds"] > 0
            assert start["peak"] >= start["resident"] > 2**24
    assert "peak MiB" in out


def test_soak_loses_and_swaps_nothing(tmp_path: Path) -> None:
    small = ["--minutes", "0.05", "--callers", "3", "--reload-seconds", "0.5"]
    out = run("benchmarks/soak.py", *small, "--json", str(tmp_path / "soak.json"))
    found = json.loads((tmp_path / "soak.json").read_text())
    assert (found["lost"], found["swapped"], found["unexpected"]) == (0, 0, {})
    assert found["requests"] == sum(found["calls"].values()) > 0
    assert found["calls"]["reload OK"] >= 1
    assert min(found["resident_bytes"]) > 2**20
    assert "0 lost, 0 swapped, 0 unexpected" in " ".join(out.split())
