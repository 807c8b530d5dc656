"""NVIDIA's driver and its GPUs."""

from __future__ import annotations

from pathlib import Path

from mnserve.engines.nvidia_driver import driver_version, gpu_lines, gpu_names, version_lines


def test_the_driver_tells_its_version_and_its_gpus(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX  580.65\nGCC version: 13\n")
    for number, model in enumerate(("NVIDIA H100 80GB HBM3", "NVIDIA L4")):
        folder = tmp_path / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nGPU UUID: \t GPU-{number}\n")
    assert gpu_names(tmp_path) == ("NVIDIA H100 80GB HBM3", "NVIDIA L4")
    assert gpu_lines(tmp_path) == ["Model: \t\t NVIDIA H100 80GB HBM3", "Model: \t\t NVIDIA L4"]
    assert driver_version(tmp_path) == "NVIDIA UNIX  580.65"
    assert version_lines(tmp_path) == ["NVRM version: NVIDIA UNIX  580.65", "GCC version: 13"]


def test_a_machine_without_a_driver_has_no_gpus(tmp_path: Path) -> None:
    assert gpu_names(tmp_path) == ()
    assert driver_version(tmp_path) == ""
