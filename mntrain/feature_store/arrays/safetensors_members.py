"""Arrays of a .safetensors file, read a block at a time.

Shapes: N rows, d columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from mntrain.errors import DataError
from mntrain.feature_store.arrays.parts import rows_of_a_block
from mntrain.regular_files import regular

_NAMES = "label_names"


class SafetensorsMembers:
    """Arrays by name; class names may stand in the metadata, as a JSON list called ``label_names``.

    Args:
        path: .safetensors file.

    Raises:
        DataError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            opened: Any = safe_open(str(regular(path)), framework="pt")
            self._file: Any = opened.__enter__()
            metadata = self._file.metadata() or {}
            self._label_names = json.loads(metadata[_NAMES]) if _NAMES in metadata else None
        except (OSError, SafetensorError, ValueError) as error:
            raise DataError(f"{path} cannot be read ({error}); write it with safetensors.save_file.") from error
        self.names: Sequence[str] = [*self._file.keys(), *([_NAMES] if self._label_names is not None else [])]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of an array."""
        return tuple(self._file.get_slice(name).get_shape())

    def read(self, name: str) -> NDArray[Any]:
        """Read a small array whole."""
        if name == _NAMES and self._label_names is not None:
            return np.array([str(label) for label in self._label_names])
        tensor = self._file.get_tensor(name)
        array: NDArray[Any] = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
        return array

    def blocks(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield the rows [N, d] of an array, a block at a time."""
        part = self._file.get_slice(name)
        rows, width = part.get_shape()
        size = rows_of_a_block(width, 4)
        for start in range(0, rows, size):
            block: NDArray[Any] = part[start : min(start + size, rows)].float().numpy()
            yield block

    def where(self, name: str) -> str:
        """Name an array for messages."""
        return f"{self.path}, {name}"
