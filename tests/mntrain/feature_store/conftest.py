"""A small trained artifact with a dot head."""

from __future__ import annotations

from pathlib import Path

import pytest

from mntrain.config import load_experiment
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions


@pytest.fixture(scope="session")
def dot_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifact of digits: Meta-Neighborhoods with a dot head, trained for an epoch."""
    folder = tmp_path_factory.mktemp("features")
    words = [
        "--family",
        "mn",
        "--name",
        "dot",
        "--meta_neighborhoods.head",
        "dot",
        "--meta_neighborhoods.entries",
        "20",
    ]
    small = ["--backbone.width", "0.25", "--training.epochs", "1", "--augmentation.crop_padding", "1"]
    fit(load_experiment("digits", [*words, *small]), FitOptions(runs=folder, quiet=True))
    return folder / "dot" / "artifact"
