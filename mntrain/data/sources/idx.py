"""Folders of idx files: MNIST and sets made like it."""

from __future__ import annotations

from mntrain.data.config import DataConfig
from mntrain.data.images import SourceImages
from mntrain.data.reading.idx_files import load_folder
from mntrain.data.reading.local_path import local_path


def load(config: DataConfig) -> SourceImages:
    """Load the ``train`` and ``test`` splits of the folder ``config.path``; classes are named by their number.

    Raises:
        DataError: the folder or a file is missing, a file is corrupt, or images and labels do not match.
    """
    return load_folder(local_path(config.path or ""), config, names=None, remedy="check data.path.")
