"""Usual names of files, folders and splits with training, validation and test data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

SPLIT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "train": "train",
        "training": "train",
        "validation": "validation",
        "valid": "validation",
        "val": "validation",
        "dev": "validation",
        "test": "test",
        "testing": "test",
        "eval": "test",
    }
)
"""Name in small letters → train, validation or test."""

# train-00000-of-00002, as the hub numbers them, with or without a digest behind; and train_0, train-1, train2.
_SHARD = re.compile(r"(?P<word>[^\W\d_]+)(?P<number>[-_. ]?\d+(-of-\d+(-[0-9a-f]+)?)?)?", re.IGNORECASE)

# Words that say nothing of what a folder or file holds, apart or joined to a split name.
_OF_SETS = ("set", "data", "dataset", "images", "imgs", "pictures", "pics", "photos", "samples", "split")
# Further words for splits, which are refused rather than read: holdout is for one the test set, for another validation.
_FURTHER: Mapping[str, str] = MappingProxyType(
    {"tests": "test", "evaluation": "test", "holdout": "test", "validate": "validation", "development": "validation"}
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def split_of(name: str) -> str | None:
    """Return train, validation or test where ``name``, in any case, is a split name; None where it is another."""
    return SPLIT_NAMES.get(name.strip().lower())


def split_of_shard(stem: str) -> tuple[str, bool] | None:
    """Return the split of a file's stem, and whether the file is one numbered part of it; None for other names."""
    parts = _SHARD.fullmatch(stem)
    split = None if parts is None else split_of(parts["word"])
    if parts is None or split is None:
        return None
    return split, parts["number"] is not None


def words(stem: str) -> set[str]:
    """Return the splits that words within ``stem`` mean, such as train for ``usps_train`` or ``trainset``."""
    return {split for word in _words(stem) if (split := _split_of_word(word)) is not None}


def disguised_split(name: str) -> str | None:
    """Return the split that ``name`` plainly means without being called so, such as train for ``training_set``.

    None where it is a split name, or holds any other word: ``crash_test`` is none.
    """
    meant = words(name)
    telling = all(word in _OF_SETS or _split_of_word(word) is not None for word in _words(name))
    return meant.pop() if telling and len(meant) == 1 and split_of(name) is None else None


def _words(name: str) -> list[str]:
    parted = _CAMEL.sub(" ", name)
    return [word.lower() for word in re.split(r"[\W\d_]+", parted) if word]


def _split_of_word(word: str) -> str | None:
    for end in ("", *_OF_SETS):
        stem = word.removesuffix(end)
        split = (split_of(stem) or _FURTHER.get(stem)) if word.endswith(end) else None
        if split is not None:
            return split
    return None
