"""Shared libraries: what an ELF file is linked to, and which of it the loader cannot find."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian: the machines that wheels of ONNX Runtime are made for
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_LOAD, _DYNAMIC = 1, 2  # types of segments
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29  # tags of the dynamic section
_MAX_NAME: Final = 4096


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """Linkage of a shared library.

    Attributes:
        needed: Names of the libraries that it is linked to, such as ``libcuda.so.1``.
        folders: Folders that the file itself asks the loader to search.
    """

    needed: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()


def linkage(file: Path) -> Linkage:
    """Reads the linkage of a shared library; empty for a file of another format.

    Raises:
        OSError: The file cannot be read.
    """
    with file.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            return Linkage()
        segments = list(_segments(stream))
        tags = [tag for kind, offset, _, size in segments if kind == _DYNAMIC for tag in _tags(stream, offset, size)]
        table = next((value for tag, value in tags if tag == _STRINGS), 0)
        strings = next(
            (offset + table - start for kind, offset, start, size in segments if _holds(kind, start, size, table)), 0
        )
        needed = [_text(stream, strings + value) for tag, value in tags if tag == _NEEDED]
        paths = [_text(stream, strings + value) for tag, value in tags if tag in (_RPATH, _RUNPATH)]
    origin = str(file.resolve().parent)
    folders = [part for path in paths for part in path.replace("${ORIGIN}", "$ORIGIN").split(":") if part]
    return Linkage(needed=tuple(needed), folders=tuple(Path(folder.replace("$ORIGIN", origin)) for folder in folders))


def load(name: str, folders: Sequence[Path]) -> list[str]:
    """Loads a library, and before it those that it is linked to, by the loader's own search or from some folders.

    Args:
        name: Name that other libraries are linked to.
        folders: Further folders.

    Returns:
        What is missing: names of libraries, or what the loader says of one that is there and cannot be loaded.
    """
    file = next((folder / name for folder in folders if (folder / name).is_file()), None)
    problem = _open(name)
    if problem and file is not None and (problem := _open(str(file))):
        known = linkage(file)
        absent = [item for needed in known.needed for item in load(needed, [*known.folders, *folders])]
        if absent:
            return absent
        problem = _open(str(file))
    if not problem:
        return []
    library, _, reason = problem.partition(": ")
    # A library that was found may itself lack another one, which the loader names.
    return [library if "cannot open shared object file" in reason else problem]


def _open(path: str) -> str:
    """Opens a library for this process; an empty text, or what the loader says."""
    try:
        ctypes.CDLL(path)  # local: other libraries find it by its name, and its symbols hide none of theirs
    except OSError as error:
        return str(error)
    return ""


def _segments(stream: BinaryIO) -> Iterator[tuple[int, int, int, int]]:
    """Type, place in the file, address and size of each segment."""
    header = _read(stream, 0, 64)
    place, size, count = (*struct.unpack_from("<Q", header, 32), *struct.unpack_from("<HH", header, 54))
    for index in range(count):
        kind, _, offset, address, _, length, _, _ = _SEGMENT.unpack(_read(stream, place + index * size, _SEGMENT.size))
        yield kind, offset, address, length


def _tags(stream: BinaryIO, offset: int, size: int) -> list[tuple[int, int]]:
    content = _read(stream, offset, size - size % 16)
    return list(struct.iter_unpack("<QQ", content))


def _holds(kind: int, start: int, size: int, address: int) -> bool:
    return kind == _LOAD and start <= address < start + size


def _text(stream: BinaryIO, place: int) -> str:
    stream.seek(place)
    return stream.read(_MAX_NAME).partition(b"\0")[0].decode("utf-8", errors="replace")


def _read(stream: BinaryIO, place: int, size: int) -> bytes:
    stream.seek(place)
    content = stream.read(size)
    if len(content) < size:
        raise OSError(f"the file ends at byte {place + len(content)}")
    return content
