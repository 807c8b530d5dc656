"""Configuration that reads new data by the rules of an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mntrain.artifact_config import ArtifactConfig, ImageArtifactConfig
from mntrain.data.config import DataConfig
from mntrain.data.reading.local_path import local_path
from mntrain.data.registry import SOURCES, find_source
from mntrain.errors import ConfigError

_IDX = ("fashion-mnist", "idx")
_OF_NEW_ROWS = ("source", "path", "target_column")
_OF_NEW_IMAGES = (
    "source",
    "path",
    "nested",
    "image_column",
    "label_column",
    "split_column",
    "test_split",
    "subset",
    "classes",
    "lists",
    "class_names",
    "missing_images",
    "image_size",
    "image_fit",
    "color",
)
# How the training data was chosen and split says nothing about new data.
_OF_OLD_DATA = frozenset(
    {"folds", "fold", "subset", "test_split", "split_column", "leaks", "classes", "lists", "missing_images"}
)


def reading_config(config: ArtifactConfig, given: Mapping[str, Any]) -> DataConfig:
    """Combine the fields that a user gives with those the artifact was trained by.

    Args:
        config: of the artifact.
        given: fields of ``DataConfig``, ``path`` among them; they win.

    Raises:
        ConfigError: the source holds data of another kind than the model takes, or a field has no use.
    """
    trained = config.experiment.data
    source = str(given.get("source") or _source(trained.source, local_path(str(given["path"]))))
    registered = find_source(source)
    images = isinstance(config, ImageArtifactConfig)
    if registered.rows == images:
        kinds = [name for name, other in SOURCES.items() if other.rows != images and other.path != "none"]
        raise ConfigError(
            f"data.source is {source!r}, which holds {'rows' if registered.rows else 'images'}, but the model takes "
            f"{'images' if images else 'rows'}; choose {' or '.join(map(repr, kinds))}."
        )
    kept: dict[str, Any] = {}
    if isinstance(config, ImageArtifactConfig):
        kept = {name: getattr(trained, name) for name in registered.options if name not in _OF_OLD_DATA}
        kept["color"] = config.input.color
        if config.input.height == config.input.width:
            kept["image_size"] = config.input.height
    else:
        kept["target"] = "value" if config.labels is None else "class"
    _check_given(given, images)
    return DataConfig(**(kept | dict(given) | {"source": source}))


def _check_given(given: Mapping[str, Any], images: bool) -> None:
    """Refuse fields that new data has no use for, since they would be ignored in silence."""
    allowed = _OF_NEW_IMAGES if images else _OF_NEW_ROWS
    useless = [name for name in given if name not in allowed]
    if useless:
        raise ConfigError(
            f"data.{useless[0]} has no use for new data, which is not split and is laid out as the artifact says; "
            f"leave it out. New {'images' if images else 'rows'} take {', '.join(f'data.{name}' for name in allowed)}."
        )


def _source(trained: str, path: Path) -> str:
    """Choose the source of new data where none is given."""
    if find_source(trained).rows:
        return "table"
    if trained in _IDX and path.is_dir() and any("-ubyte" in file.name for file in path.iterdir()):
        return trained
    return "datasets" if trained == "datasets" and not path.exists() else "images"
