"""Description of the machine of a measurement."""

from __future__ import annotations

from dataclasses import replace

from mnserve.bench.machine import describe_machine


def test_a_caption_names_the_gpu_where_there_is_one() -> None:
    machine = replace(describe_machine(), gpus=())
    assert machine.caption.startswith(machine.cpu)
    assert ", NVIDIA L4" in replace(machine, gpus=("NVIDIA L4",)).caption
    assert "NVIDIA" not in machine.caption
