"""An artifact of its own for every test."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def artifact(runs: Path, tmp_path: Path) -> Path:
    """The small Meta-Neighborhoods artifact on digits, to be changed at will."""
    return Path(shutil.copytree(runs / "meta_neighborhoods" / "artifact", tmp_path / "artifact"))
