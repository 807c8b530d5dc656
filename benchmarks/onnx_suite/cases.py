"""Collect the models and inputs of ONNX's backend suite from the installed package, without a network.

Cases of operators (`node`) and small graphs (`simple`) are made by ``onnx.backend.test.case``. Those exported by
PyTorch (`pytorch-converted`, `pytorch-operator`) lie in the package, and so do the networks without weights (`real`).
"""

import fnmatch
import glob
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import model as graph_cases
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from onnx_suite.arrays import plain_value

_SEED: Final = 0
_STORED: Final = ("pytorch-converted", "pytorch-operator")
_READERS: Final[dict[str, tuple[type[Any], Callable[[Any], Any]]]] = {
    "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
    "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
}


@dataclass(frozen=True, kw_only=True)
class SuiteCase:
    """One model of the suite with the inputs that it is run on.

    Attributes:
        name: kind and name, fit for a folder of a repository.
        model: the ONNX file.
        data_sets: values of the inputs in the order of the file's inputs, once for each run. Inputs at the end that the
            suite leaves out are missing.
    """

    name: str
    model: bytes
    data_sets: Sequence[Sequence[Any]]


def collect(*patterns: str) -> Iterator[SuiteCase]:
    """Yield the cases whose names fit one of some shell patterns, in the order of their names."""
    for name, case in sorted(_suite().items()):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            yield _complete(name, case)


def _suite() -> dict[str, TestCase]:
    np.random.seed(_SEED)  # some cases draw their inputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cases divide by zero on purpose
        cases = [*load_model_tests(kind="node"), *graph_cases.collect_testcases()]
    for kind in _STORED:
        cases += load_model_tests(kind=kind)
    return {f"{case.kind}-{case.name.removeprefix('test_')}": case for case in cases}


def _complete(name: str, case: TestCase) -> SuiteCase:
    if case.model is not None:
        sets = [[plain_value(value) for value in inputs] for inputs, _ in case.data_sets or []]
        return SuiteCase(name=name, model=case.model.SerializeToString(), data_sets=sets)
    if case.model_dir is not None:
        folder = Path(case.model_dir)
        model = onnx.load(folder / "model.onnx")
        return SuiteCase(name=name, model=model.SerializeToString(), data_sets=_stored_sets(model, folder))
    assert case.url is not None
    model = onnx.load(Path(onnx.__file__).parents[1] / case.url)
    initialized = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in initialized]
    dummies = [Runner.generate_dummy_data(info, name=name) for info in inputs]
    return SuiteCase(name=name, model=model.SerializeToString(), data_sets=[dummies])


def _stored_sets(model: onnx.ModelProto, folder: Path) -> list[list[Any]]:
    sets = []
    for data in sorted(glob.glob(f"{folder}/test_data_set_*")):
        count = len(glob.glob(f"{data}/input_*.pb"))
        sets.append([_read(Path(data) / f"input_{index}.pb", model.graph.input[index]) for index in range(count)])
    return sets


def _read(file: Path, info: onnx.ValueInfoProto) -> Any:
    message, convert = _READERS[str(info.type.WhichOneof("value"))]
    return plain_value(convert(message.FromString(file.read_bytes())))
