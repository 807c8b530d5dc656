"""The file of recordings: fingerprint's key → what was recorded on such a machine."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fingerprint import fingerprint, key_of, same_blocks, same_libraries

FILE = Path(__file__).parent / "data" / "recordings.json"


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The recording to compare with on this machine.

    Args:
        trainings: by name.
        exports: by name.
        same_machine: every bit has to be the same.
        same_libraries: nodes and names of graphs have to be the same.
        same_blocks: those of ``cpu.onnx`` too.
    """

    trainings: dict[str, Any]
    exports: dict[str, Any]
    same_machine: bool
    same_libraries: bool
    same_blocks: bool


def recording_for_this_machine() -> Recording:
    """The recording of this machine; elsewhere the one that is most like it."""
    here, recordings = fingerprint(), read_recordings()

    def likeness(item: dict[str, Any]) -> tuple[bool, bool, bool]:
        there = item["fingerprint"]
        return here == there, same_libraries(here, there), same_blocks(here, there)

    chosen = recordings.get(key_of(here)) or max(recordings.values(), key=likeness)
    machine, libraries, blocks = likeness(chosen)
    return Recording(
        trainings=chosen["trainings"],
        exports=chosen["exports"],
        same_machine=machine,
        same_libraries=libraries,
        same_blocks=blocks,
    )


def read_recordings() -> dict[str, Any]:
    """All recordings; none where there is no file yet."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.exists() else {}


def write_recordings(recordings: dict[str, Any]) -> None:
    """Replace the file; lists of numbers stand in one line each."""
    text = json.dumps(recordings, indent=1, ensure_ascii=False)
    text = re.sub(r'\[\n([^\[\]{}"]*)\n *\]', lambda found: f"[{' '.join(found[1].split())}]", text)
    FILE.write_text(text + "\n", encoding="utf-8")


def compare_rows(found: list[dict[str, str]], recorded: list[dict[str, str]]) -> None:
    """Compare rows of metrics.csv with the tolerance that other processors and libraries need."""
    assert [list(row) for row in found] == [list(row) for row in recorded], "other columns or another number of rows"
    for row, expected in zip(found, recorded, strict=True):
        for column, text in expected.items():
            # A prediction or two may come out otherwise: 0.04 are two of the 64 examples of training.
            tolerance = 0.04 if column.endswith("accuracy") else 0
            same = float(row[column]) == pytest.approx(float(text), rel=1e-4, abs=tolerance)
            assert same, f"epoch {row['epoch']}: {column} is {row[column]}, recorded {text}"
