"""benchmarks/client_examples.py, with programs of ours in the place of Triton's examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client_programs.catalogue import EXAMPLES

CLIENT = """
import argparse
import numpy as np
import tritonclient.grpc as grpcclient
parser = argparse.ArgumentParser()
parser.add_argument("-u")
known, _ = parser.parse_known_args()
client = grpcclient.InferenceServerClient(known.u)

def infer(model, arrays, kind, outputs):
    inputs = [grpcclient.InferInput(name, array.shape, kind) for name, array in arrays.items()]
    for tensor, array in zip(inputs, arrays.values()):
        tensor.set_data_from_numpy(array)
    return client.infer(model, inputs, outputs=outputs)
"""
SUMS = """
for model, kind in (("simple", np.int32), ("simple_int8", np.int8)):
    arrays = {"INPUT0": np.arange(16, dtype=kind)[None], "INPUT1": np.ones((1, 16), kind)}
    answer = infer(model, arrays, np.dtype(kind).name.upper(), None)
    assert answer.as_numpy("OUTPUT0").tolist() == [list(range(1, 17))]
    assert answer.as_numpy("OUTPUT1").tolist() == [list(range(-1, 15))]
print("PASS")
"""
CLASSES = """
from PIL import Image
import sys
assert np.asarray(Image.open(sys.argv[-3])).mean() == 128
for model, image, scores, last in (
    ("densenet_onnx", "data_0", "fc6_1", 999), ("inception_onnx", "input:0", "InceptionV3/Predictions/Softmax:0", 1000)
):
    assert list(client.get_model_metadata(model).outputs[0].shape) == [last + 1]
    shape = client.get_model_metadata(model).inputs[0].shape
    wanted = [grpcclient.InferRequestedOutput(scores, class_count=2)]
    answer = infer(model, {image: np.full(shape, 2, np.float32)}, "FP32", wanted).as_numpy(scores)
    assert answer[0] == b"2.000000:%d:LABEL %d" % (last, last), answer
    assert answer.shape == (2,)
print("PASS")
"""
CONTROL = """
assert len(client.get_model_repository_index().models) == 8
client.load_model("simple")
client.unload_model("simple")
print("all went well, but nothing says so: PA" + "SS"[:0])
"""


@pytest.fixture
def examples(tmp_path: Path) -> Callable[..., Path]:
    def write(**programs: str) -> Path:
        for name, text in programs.items():
            (tmp_path / f"{name}.py").write_text(CLIENT + text)
        return tmp_path

    return write


def test_every_example_of_the_folder_is_run_and_its_result_told(
    run_script: Callable[..., Any], examples: Callable[..., Path], tmp_path: Path
) -> None:
    folder = examples(
        simple_grpc_infer_client=SUMS,
        reuse_infer_objects_client="raise SystemExit('wrong sum')",
        ensemble_image_client=CLASSES,
        simple_grpc_model_control=CONTROL,
        simple_grpc_custom_repeat="infer('repeat_int32', {}, '', None)",
        grpc_client="if False: print('PASS')",
        memory_growth_test="",
        another_program="",
    )
    done = run_script("client_examples", folder, "--port", "0", "--json", tmp_path / "found.json")
    assert done.code == 1, done.stderr
    rows = {row["example"]: row for row in json.loads((tmp_path / "found.json").read_text())}
    passed = {name.split()[0]: row["passed"] for name, row in rows.items()}
    assert passed == {
        "simple_grpc_infer_client": True,
        "reuse_infer_objects_client": False,
        "grpc_client": False,
        "ensemble_image_client": True,
        "simple_grpc_model_control": True,
        "simple_grpc_custom_repeat": False,
    }, rows
    lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
    assert lines["reuse_infer_objects_client"].endswith("FAILED: wrong sum")
    assert "cannot: its model is decoupled" in lines["simple_grpc_custom_repeat"]
    assert "there is no model 'repeat_int32'" in rows["simple_grpc_custom_repeat"]["told"]
    assert done.stdout.endswith("3 of 7 pass, 3 failed\n")


def test_a_folder_without_examples_cannot_be_run(run_script: Callable[..., Any], tmp_path: Path) -> None:
    done = run_script("client_examples", tmp_path)
    assert (done.code, "holds none of the examples" in done.stderr) == (2, True)


def test_no_example_is_listed_twice() -> None:
    titles = [example.title for example in EXAMPLES]
    assert len(titles) == len(set(titles))
