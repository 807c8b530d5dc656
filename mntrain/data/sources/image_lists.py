"""Images that text files list: a path and the number of a class a line, as for ImageNet-LT and Places-LT."""

from __future__ import annotations

from mntrain.data.config import DataConfig
from mntrain.data.image_files.labelled import load_labelled
from mntrain.data.image_files.listed_images import open_lists
from mntrain.data.image_files.opened import Place
from mntrain.data.images import SourceImages
from mntrain.data.reading.local_path import local_path
from mntrain.data.reading.quiet import quiet_datasets
from mntrain.errors import DataError


def load(config: DataConfig, *, trained: bool = True) -> SourceImages:
    """Load the listed images below ``config.path``, a local folder.

    Args:
        config: of the data.
        trained: there must be a list of training images.

    Raises:
        DataError: lists or images are missing, or cannot be used.
        ConfigError: ``data.classes`` does not fit.
    """
    path = local_path(str(config.path))
    if not path.is_dir():
        raise DataError(
            f"'{config.path}' is no folder; set data.path to the folder that the paths of the lists start in."
        )
    place = Place(path=path, config=config, trained=trained)
    with quiet_datasets():
        return load_labelled(place, open_lists(place))
