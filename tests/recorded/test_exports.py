"""Exports of ``data/artifacts`` are the recorded ones: bit for bit on a machine that has recorded them.

Notes of PyTorch's exporter and our own version are left out (``onnx_digests.py`` says why).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measuring import EXPORTS, export
from recordings import Recording


@pytest.mark.parametrize("name", EXPORTS)
def test_files_and_graphs_are_the_recorded_ones(name: str, recording: Recording, tmp_path: Path) -> None:
    found, recorded = export(name, tmp_path), recording.exports[name]
    assert found["texts"] == recorded["texts"]
    if recording.same_blocks:
        assert found["files"] == recorded["files"]
        assert found["keys"] == recorded["keys"]
    else:
        # Whether there is a file for CPUs, and what export.json tells of it, depends on the processor.
        assert _common(found["files"]) == _common(recorded["files"])
        assert _common(found["keys"]) == _common(recorded["keys"])
    for file in found["graphs"].keys() & recorded["graphs"].keys():
        graph, expected = found["graphs"][file], recorded["graphs"][file]
        assert graph["interface"] == expected["interface"]
        if recording.same_machine:
            assert graph["computation"] == expected["computation"], f"{file} computes something else"
            assert graph["graph"] == expected["graph"], f"{file} computes the same, but names or order differ"
        if recording.same_libraries and (recording.same_blocks or file != "cpu.onnx"):
            assert graph["structure"] == expected["structure"]
            assert graph["norms"] == pytest.approx(expected["norms"], rel=1e-3, abs=1e-6)
        _compare_answers(graph["answers"], expected["answers"], 0.05 if file == "cpu.onnx" else 1e-4)


def test_two_exports_of_one_artifact_are_alike(recording: Recording, tmp_path: Path) -> None:
    """Proves that digests depend on neither the folder nor what the process exported before."""
    one, other = export("explain", tmp_path / "one"), export("explain", tmp_path / "another" / "folder")
    assert one == other


def test_an_export_of_another_model_differs(recording: Recording, tmp_path: Path) -> None:
    """Proves that the comparison above can fail, on any machine."""
    adapting = export("factored", tmp_path)["graphs"]["model.onnx"]
    plain = recording.exports["without_adaptation"]["graphs"]["model.onnx"]
    for depth in ("graph", "computation", "structure", "interface", "norms"):
        assert adapting[depth] != plain[depth]
    with pytest.raises(AssertionError):
        _compare_answers(adapting["answers"], plain["answers"], 1e-4)


def _common(names: list[str]) -> list[str]:
    return [name for name in names if "cpu" not in name and not name.startswith("adaptation.integer_keys")]


def _compare_answers(found: dict[str, Any], recorded: dict[str, Any], tolerance: float) -> None:
    assert found.keys() == recorded.keys()
    for output, values in recorded.items():
        np.testing.assert_allclose(found[output], values, atol=tolerance, rtol=1e-4, err_msg=output)
