"""Usual names of files and splits with training, validation and test data."""

from __future__ import annotations

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
    }
)
"""Name in small letters → train, validation or test."""
