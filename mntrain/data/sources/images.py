"""Your own images: class folders, manifests, tables of images and saved data sets. Never the network."""

from __future__ import annotations

import os
from pathlib import Path

from mntrain.data.config import DataConfig
from mntrain.data.image_files.labelled import load_labelled
from mntrain.data.image_files.local import open_local
from mntrain.data.image_files.opened import Place
from mntrain.data.images import SourceImages
from mntrain.data.reading.quiet import quiet_datasets
from mntrain.errors import DataError


def load(config: DataConfig, *, trained: bool = True) -> SourceImages:
    """Load the labelled images at ``config.path``, a local file or folder.

    Splits named train, validation (val, valid, dev) and test (testing, eval) are kept; without any, they are drawn.

    Args:
        config: of the data.
        trained: there must be a train split, and no class beyond those of it.

    Raises:
        DataError: nothing can be read there, what lies there follows none of the rules, or splits do not agree.
        ConfigError: a column or split is named wrongly, or several columns would do.
    """
    path = Path(str(config.path)).expanduser()
    if not os.path.exists(path):
        raise DataError(
            f"'{config.path}' does not exist; check data.path (a file or a folder). For a name on the Hugging Face hub "
            "choose data.source datasets."
        )
    place = Place(path=path, config=config, trained=trained)
    with quiet_datasets():
        return load_labelled(place, open_local(place))
