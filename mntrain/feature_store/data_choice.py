"""Data that features are computed of: what a user says, and what follows from the network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mntrain.artifact import read_config
from mntrain.config_fields import with_fields
from mntrain.data.augmentation import AugmentationConfig
from mntrain.data.config import DataConfig
from mntrain.data.images import ImageData
from mntrain.data.loading import load_images
from mntrain.data.registry import find_source
from mntrain.errors import ConfigError, DataError
from mntrain.networks.opened import OpenedNetwork


def choose_data(opened: OpenedNetwork, given: Mapping[str, Any]) -> DataConfig:
    """Combine the fields that a user gives with those of the run of an artifact, or those that suit the network.

    An artifact of ours takes the data of its run where no source is given. Other networks take the source ``images``
    where a path is given. Images are brought to the network's own size and colour unless the user says otherwise.

    Raises:
        ConfigError: there is nothing to compute features of, or a field does not fit.
    """
    trained = read_config(Path(opened.name)).experiment.data if opened.kind == "artifact" else None
    if trained is not None and given.get("source") in (None, trained.source):
        return with_fields("data", trained, given)
    if given.get("source") is None and given.get("path") is None:
        raise ConfigError(
            f"--data.path is not given; {opened.name} brings no data of its own. Name images such as --data.path "
            "photos, or a source such as --data.source digits."
        )
    source = str(given.get("source") or "images")
    if find_source(source).rows:
        raise ConfigError(
            f"data.source is {source!r}, which holds rows, but {opened.name} takes images; choose images, datasets, "
            "idx, fashion-mnist or digits. Rows that are features already are read as arrays:FILE."
        )
    suited: dict[str, Any] = {"color": "L" if opened.input.channels == 1 else "RGB"}
    if opened.input.side is not None:
        suited |= {"image_size": opened.input.side, "image_fit": opened.input.fit}
    if "image_size" in given and given["image_size"] is None:
        suited.pop("image_fit", None)
    return with_fields("data", DataConfig(), suited | dict(given) | {"source": source})


def choose_augmentation(opened: OpenedNetwork, given: Mapping[str, Any]) -> AugmentationConfig:
    """Combine the fields that a user gives with those of the run of an artifact.

    Raises:
        ConfigError: a value that cannot be.
    """
    if opened.kind == "artifact":
        return with_fields("augmentation", read_config(Path(opened.name)).experiment.augmentation, given)
    return with_fields("augmentation", AugmentationConfig(), given)


def load_chosen(config: DataConfig) -> ImageData:
    """Load and split images; all of them are held in memory, decoded.

    Raises:
        ConfigError, DataError: as :func:`~mntrain.data.loading.load_images`; or memory does not suffice.
    """
    try:
        return load_images(config)
    except MemoryError as error:
        raise DataError(
            f"The images of {config.path or config.source} do not fit into memory, where all of them are held decoded, "
            "a byte for each channel of a pixel. Set --data.image_size smaller, since the network's input is reached "
            "inside the graph, or --data.train_limit."
        ) from error
