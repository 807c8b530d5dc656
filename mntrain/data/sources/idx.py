"""Folders of idx files: MNIST and sets made like it."""

from __future__ import annotations

from pathlib import Path

from mntrain.data.config import DataConfig
from mntrain.data.images import SourceImages
from mntrain.data.reading.idx_files import load_folder


def load(config: DataConfig) -> SourceImages:
    """Load the ``train`` and ``test`` splits of the folder ``config.path``; classes are named by their number.

    Raises:
        DataError: the folder or a file is missing, a file is corrupt, or images and labels do not match.
    """
    return load_folder(Path(config.path or "").expanduser(), config, names=None, remedy="check data.path.")
