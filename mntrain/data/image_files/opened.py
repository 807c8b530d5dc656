"""A place that holds labelled images, and what was found there before any image is decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mntrain.data.config import DataConfig
from mntrain.data.image_files.rows import ImageRows
from mntrain.data.image_files.tree import IgnoredFiles


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """A place that is being read.

    Args:
        path: of the file or folder.
        config: asks for it.
        trained: for training, which needs a train split that has every class.
        ignored: collects what is not used.
    """

    path: Path
    config: DataConfig
    trained: bool = True
    ignored: IgnoredFiles = field(default_factory=IgnoredFiles)

    @property
    def where(self) -> str:
        """The path, for messages."""
        return f"'{self.path}'"


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedImages:
    """Rows of each split.

    Args:
        splits: train and perhaps validation and test, or all alone; rows of each file, in order.
        layout: a sentence on what was found.
        split_words: a sentence on how the splits came about.
        pictures: full paths of the pictures in the folder, for tables of paths; None where nobody listed them.
        from_folders: labels are names of folders.
    """

    splits: Mapping[str, Sequence[ImageRows]]
    layout: str
    split_words: str
    pictures: tuple[str, ...] | None = None
    from_folders: bool = False
