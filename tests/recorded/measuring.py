"""Run the recorded work: tiny seeded trainings, and exports of the small artifacts in ``data/artifacts``."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from onnx_digests import describe_onnx
from safetensors.numpy import load_file

from mnexport.commands.cli import main as mnexport
from mntrain.commands.cli import main as mntrain

DATA = Path(__file__).parent / "data"
ANSWERED = 8
"""Rows of the held-out samples whose answers are recorded."""
_COMMON = ["--training.epochs", "2", "--training.batch_size", "16", "--training.accelerator", "cpu"]
_DIGITS = ["digits", *_COMMON, "--backbone.width", "0.0625", "--data.train_limit", "64"]
_DIGITS += ["--data.test_fraction", "0.015", "--data.validation_fraction", "0.05"]
_ENTRIES = ["--meta_neighborhoods.entries", "20", "--meta_neighborhoods.init", "paper"]
TRAININGS = {
    "vanilla": [*_DIGITS, "--family", "vanilla"],
    "meta_neighborhoods": [*_DIGITS, *_ENTRIES],
    "data_start": [*_DIGITS, *_ENTRIES, "--meta_neighborhoods.init", "data"],
    "maxl": [*_DIGITS, "--family", "maxl"],
    "ifilm": [*_DIGITS, *_ENTRIES, "--backbone.ifilm", "true", "--backbone.ifilm_entries", "4"],
    "regressor": ["uci", *_COMMON, *_ENTRIES, "--backbone.layers", "2", "--backbone.units", "8"],
}
"""Words after ``mntrain fit``, but for name, folder and path of the data."""
EXPORTS = {
    "vanilla": ["vanilla"],
    "maxl": ["maxl"],
    "explicit": ["meta_neighborhoods", "--form", "explicit"],
    "factored": ["meta_neighborhoods", "--form", "factored"],
    "low_rank": ["meta_neighborhoods", "--form", "low_rank", "--rank", "12", "--tolerance", "0.05"],
    "explain": ["meta_neighborhoods", "--form", "factored", "--explain", "3"],
    "without_adaptation": ["meta_neighborhoods", "--vanilla"],
    "ifilm": ["ifilm", "--form", "factored"],
    "regressor": ["regressor", "--form", "factored"],
    "regressor_low_rank": ["regressor", "--form", "low_rank", "--rank", "6", "--tolerance", "0.05"],
}
"""Name of the published model → artifact, and further words after ``mnexport``."""


def train(name: str, runs: Path, *words: str) -> dict[str, Any]:
    """Run one of the trainings into ``runs``.

    Returns:
        ``rows`` of metrics.csv; for the ``weights`` before and after training ``sha256``, and L2 ``norms`` by name.
    """
    table = ["--data.path", str(DATA / "table.csv")] if TRAININGS[name][0] == "uci" else []
    _run(mntrain, ["fit", *TRAININGS[name], *table, "--name", name, "--training.keep_every", "2", *words], runs)
    checkpoints = sorted((runs / name / "checkpoints").glob("*.safetensors"))
    with (runs / name / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return {"rows": list(csv.DictReader(file)), "weights": {item.stem: _weights(item) for item in checkpoints}}


def export(name: str, repository: Path) -> dict[str, Any]:
    """Run one of the exports into ``repository``.

    Returns:
        ``files``, ``texts`` of config.pbtxt and labels.txt, ``keys`` of export.json, and for every ONNX file what
        :func:`describe_onnx` says, with its ``answers`` to the artifact's first samples.
    """
    artifact, *words = EXPORTS[name]
    _run(mnexport, [str(DATA / "artifacts" / artifact), str(repository / name), *words])
    folder = repository / name
    samples = load_file(str(DATA / "artifacts" / artifact / "samples.safetensors"))
    rows = samples["images" if "images" in samples else "inputs"][:ANSWERED]
    return {
        "files": sorted(str(item.relative_to(folder)) for item in folder.rglob("*") if item.is_file()),
        "texts": {item.name: item.read_text(encoding="utf-8") for item in sorted(folder.glob("*.[!m]*"))},
        "keys": sorted(_keys(json.loads((folder / "1" / "export.json").read_text(encoding="utf-8")))),
        "graphs": {
            item.name: describe_onnx(item) | {"answers": _answers(item, rows)}
            for item in sorted((folder / "1").glob("*.onnx"))
        },
    }


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: sums over several come out in other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(main: Any, words: list[str], runs: Path | None = None) -> None:
    folder = [] if runs is None else ["--runs", str(runs)]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*words, *folder, "--json"]) == 0


def _weights(file: Path) -> dict[str, Any]:
    tensors = dict(sorted(load_file(str(file)).items()))
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tensor.shape} ".encode() + np.ascontiguousarray(tensor).tobytes())
    norms = {name: float(np.linalg.norm(tensor.astype(np.float64))) for name, tensor in tensors.items()}
    return {"sha256": digest.hexdigest(), "norms": norms}


def _answers(file: Path, rows: np.ndarray) -> dict[str, list[Any]]:
    """Floating-point outputs of an ONNX file, by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(names, {session.get_inputs()[0].name: rows})
    return {
        name: np.round(output.astype(np.float64), 7).tolist()
        for name, output in zip(names, outputs, strict=True)
        if output.dtype == np.float32
    }


def _keys(value: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys of nested objects."""
    if not isinstance(value, dict):
        yield prefix
        return
    for key, item in value.items():
        yield from _keys(item, f"{prefix}.{key}" if prefix else key)
