"""Description of the machine of a measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mnserve.bench.machine import describe_machine, gpu_names


def test_gpus_are_named_by_the_driver(tmp_path: Path) -> None:
    for number, model in enumerate(("NVIDIA H100 80GB HBM3", "NVIDIA L4")):
        folder = tmp_path / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 1\n")
    assert gpu_names(tmp_path) == ("NVIDIA H100 80GB HBM3", "NVIDIA L4")
    assert gpu_names(tmp_path / "missing") == ()


def test_a_caption_names_the_gpu_where_there_is_one() -> None:
    machine = replace(describe_machine(), gpus=())
    assert machine.caption.startswith(machine.cpu)
    assert ", NVIDIA L4" in replace(machine, gpus=("NVIDIA L4",)).caption
    assert "NVIDIA" not in machine.caption
