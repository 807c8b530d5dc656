"""Arrays of a .npz file, or of a folder of .npy files; large ones are read a block at a time, never unpickled.

Shapes: N rows, d columns.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import DataError
from mntrain.feature_store.arrays.parts import rows_of_a_block
from mntrain.regular_files import regular

_ENDING = ".npy"


class NpyMembers:
    """Arrays by name.

    Args:
        path: .npz file, or a folder of .npy files.

    Raises:
        DataError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: Sequence[str]
        try:
            if path.is_dir():
                self.names = sorted(item.stem for item in path.glob(f"*{_ENDING}"))
            else:
                with zipfile.ZipFile(regular(path)) as archive:
                    self.names = [name.removesuffix(_ENDING) for name in archive.namelist() if name.endswith(_ENDING)]
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} cannot be read ({error}); write it with numpy.savez.") from error

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of an array."""
        shape: tuple[int, ...] = self._within(name, lambda stream: _header(stream)[0])
        return shape

    def read(self, name: str) -> NDArray[Any]:
        """Read a small array whole."""
        array: NDArray[Any] = self._within(name, lambda stream: np.lib.format.read_array(stream, allow_pickle=False))
        return array

    def blocks(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield the rows [N, d] of an array, a block at a time.

        Raises:
            DataError: it is cut off, holds objects, or lies in the order of Fortran.
        """
        with self._open(name) as stream:
            shape, fortran, dtype = _header(stream)
            if fortran and min(shape) > 1:
                raise DataError(f"{self.where(name)} lies column by column; write it with numpy.ascontiguousarray.")
            if dtype.kind not in "fiu":
                raise DataError(f"{self.where(name)} holds {dtype}; features must be numbers.")
            size = rows_of_a_block(shape[1], dtype.itemsize)
            for start in range(0, shape[0], size):
                count = min(size, shape[0] - start)
                content = stream.read(count * shape[1] * dtype.itemsize)
                if len(content) < count * shape[1] * dtype.itemsize:
                    raise DataError(f"{self.where(name)} is cut off at row {start}; copy the file again.")
                yield np.frombuffer(content, dtype).reshape(count, shape[1])

    def where(self, name: str) -> str:
        """Name an array for messages."""
        return f"{self.path}, {name}"

    def _within(self, name: str, use: Callable[[IO[bytes]], Any]) -> Any:
        try:
            with self._open(name) as stream:
                return use(stream)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{self.where(name)} cannot be read ({error}); it must be a plain array without Python objects."
            ) from error

    def _open(self, name: str) -> IO[bytes]:
        if self.path.is_dir():
            return regular(self.path / f"{name}{_ENDING}").open("rb")
        archive = zipfile.ZipFile(regular(self.path))
        return archive.open(f"{name}{_ENDING}")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    return tuple(shape), bool(fortran), dtype
