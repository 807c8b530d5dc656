"""Files of a model in a store: checked names, sizes, entity tags and checksums."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mnserve.errors import CorruptModelError
from mnserve.text.names import is_text, listed, printable, shortened

MAX_DEPTH: Final = 4
"""Most parts of a path in a model's folder: VERSION/model.onnx/PART, or a folder of labels or samples."""
_MAX_NAME: Final = 255
_TAGS: Final = ("ETag", "etag", "md5Hash", "crc32c", "generation", "blob_id", "content_md5", "Content-MD5", "Digest")
_TIMES: Final = ("LastModified", "Last-Modified", "last_modified", "mtime", "created", "updated", "ino")


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """One file of a model.

    Attributes:
        path: Path in the model's folder, with slashes.
        remote: Path in the store, as its library has it.
        size: Bytes; None where the store does not tell.
        tag: What changes with the content: the entity tag, or size and time where there is none; None if not asked for.
        checksum: Kind and value of a digest that the store knows; None without one.
    """

    path: str
    remote: str
    size: int | None
    tag: str | None
    checksum: tuple[str, str] | None = None

    @property
    def key(self) -> str:
        """Name of this content of the file, for a file name."""
        return hashlib.sha256(f"{self.path}\0{self.size}\0{self.tag}".encode()).hexdigest()[:32]


def stored_file(path: str, remote: str, info: Mapping[str, Any]) -> StoredFile:
    """Reads what a store tells of a file."""
    size = info.get("size")
    return StoredFile(
        path=path,
        remote=remote,
        size=size if isinstance(size, int) and size >= 0 else None,
        tag=_tag(info),
        checksum=_checksum(info),
    )


def digest_of(files: Iterable[StoredFile]) -> str:
    """Returns one name for the content of several files."""
    return hashlib.sha256("\n".join(sorted(file.key for file in files)).encode()).hexdigest()[:32]


def bad_name(name: str) -> str | None:
    """Tells what is wrong with the name of a file or folder that a store lists; None for a good one."""
    if name in ("", ".", ".."):
        return "leads to another folder"
    if "/" in name or "\\" in name:
        return "has a separator of folders in it"
    if not is_text(name) or any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return "has a control character in it, or is not UTF-8"
    return "is too long" if len(name.encode()) > _MAX_NAME else None


def check_paths(model: str, paths: Iterable[str]) -> None:
    """Checks that files of a model can lie side by side on a disk, on any file system.

    Raises:
        CorruptModelError: A name leads out of the folder, or two names are one on a disk.
    """
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        for part in parts:
            if fault := bad_name(part):
                raise CorruptModelError(
                    f"model '{model}': the name {_shown(path)} in the store {fault}; rename it there"
                )
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            _check_twin(model, folder, folders.setdefault(_folded(folder), folder))
        _check_twin(model, path, seen.setdefault(_folded(path), path))
    for folded in seen.keys() & folders.keys():
        raise CorruptModelError(
            f"model '{model}': {_shown(seen[folded])} is a file and a folder in the store; take one of them away"
        )


def is_passed_over(parts: list[str]) -> bool:
    """Tells if a path is too deep for a part of a model, or belongs to a publish in progress."""
    if any(part in ("", ".", "..") for part in parts):
        return False  # refused later
    return len(parts) > MAX_DEPTH or any(part.startswith(".") for part in parts)


def without_twins(names: list[str], left_out: dict[str, str]) -> list[str]:
    """Leaves out models whose names differ by case alone: they are one folder on some disks."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.casefold(), []).append(name)
    for group in groups.values():
        if len(group) > 1:
            left_out.update({name: f"{listed(group)} differ by case alone; rename them" for name in group})
    return [name for name in names if name not in left_out]


def _check_twin(model: str, path: str, twin: str) -> None:
    if twin != path:
        raise CorruptModelError(
            f"model '{model}': {_shown(path)} and {_shown(twin)} in the store differ by case alone, and are one file "
            "on some disks; rename one of them"
        )


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _shown(path: str) -> str:
    return f"'{printable(shortened(path))}'" if is_text(path) else repr(path)


def _tag(info: Mapping[str, Any]) -> str | None:
    """Chooses entity tags and checksums; times only where there are none, since any upload changes them."""
    values = _plain(info, _TAGS) or _plain(info, _TIMES)
    if (large := _large_file(info)) is not None:
        values["sha256"] = large
    return json.dumps(values, sort_keys=True) if values else None


def _plain(info: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    return {name: str(info[name]) for name in names if info.get(name) is not None}


def _checksum(info: Mapping[str, Any]) -> tuple[str, str] | None:
    """Finds a digest of the whole content. The entity tag of S3 is none where the bucket encrypts with keys."""
    if (large := _large_file(info)) is not None:
        return "sha256", large
    if isinstance(info.get("blob_id"), str):
        return "git", info["blob_id"]
    for name in ("md5Hash", "Content-MD5"):
        value = info.get(name)
        if isinstance(value, str):
            try:
                return "md5", base64.b64decode(value, validate=True).hex()
            except (binascii.Error, ValueError):
                return None
    return None


def _large_file(info: Mapping[str, Any]) -> str | None:
    """Returns the SHA-256 of a large file on the Hugging Face hub."""
    large = info.get("lfs")
    found = large.get("sha256") if isinstance(large, Mapping) else getattr(large, "sha256", None)
    return found if isinstance(found, str) else None
