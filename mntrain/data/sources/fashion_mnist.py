"""Fashion-MNIST as Debian packages it."""

from __future__ import annotations

from mntrain.data.config import DataConfig
from mntrain.data.images import SourceImages
from mntrain.data.reading.idx_files import load_folder
from mntrain.data.reading.local_path import local_path

FASHION_MNIST_FOLDER = "/usr/share/datasets/fashion-mnist"
"""Folder of Debian's package dataset-fashion-mnist."""

_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_REMEDY = "install the Debian package dataset-fashion-mnist, or set data.path to a folder that holds its files."


def load(config: DataConfig) -> SourceImages:
    """Load Fashion-MNIST from ``config.path``, or from the folder of Debian's package.

    Raises:
        DataError: the folder or a file is missing, a file is corrupt, or images and labels do not match.
    """
    folder = local_path(config.path or str(FASHION_MNIST_FOLDER))
    return load_folder(folder, config, names=_CLASSES, remedy=_REMEDY)
