"""Which files are pictures, which are tables, and what to say of the others."""

from __future__ import annotations

from functools import cache
from pathlib import PurePath

from PIL import Image

TABLE_SUFFIXES = (".parquet", ".arrow", ".json", ".jsonl", ".csv", ".tsv")
"""Suffixes of files that hold rows: of images, or of paths to images."""

# Pillow tells these by their first bytes, but decodes none of them without further programs.
_STUBS = frozenset({"BUFR", "GRIB", "HDF5", "MPEG", "WMF", "EPS"})
_FOREIGN = frozenset({
    ".heic", ".heif", ".hif", ".jxl", ".jxr", ".wdp", ".svg", ".svgz", ".eps", ".ps", ".wmf", ".emf", ".ai", ".pdf",
    ".xcf", ".exr", ".djvu", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf", ".pef", ".srw",
})  # fmt: skip
_ARCHIVES = frozenset({".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"})
_TEXTS = frozenset({".txt", ".md", ".rst", ".html", ".htm", ".xml", ".yaml", ".yml", ".log", ".ini", ".py", ".ipynb"})


@cache
def picture_suffixes() -> frozenset[str]:
    """Return the suffixes, in small letters, of the picture formats that Pillow reads."""
    Image.init()
    formats = Image.registered_extensions()
    # Pillow writes .mpo by that name, and reads it as JPEG.
    return frozenset({".mpo"} | {end for end, kind in formats.items() if kind in Image.OPEN and kind not in _STUBS})


def is_picture(name: str) -> bool:
    """Tell if a file called ``name`` is taken for a picture."""
    return PurePath(name).suffix.lower() in picture_suffixes()


def is_table(name: str) -> bool:
    """Tell if a file called ``name`` is taken for a table."""
    return PurePath(name).suffix.lower() in TABLE_SUFFIXES


def reason_to_ignore(name: str) -> str:
    """Say why a file that is no picture is not used."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _FOREIGN:
        return f"pictures in a format that cannot be read ({suffix}): convert them to PNG or JPEG"
    if suffix in _ARCHIVES:
        return "archives: unpack them"
    if suffix in _TEXTS:
        return "text files"
    return "files that are no pictures, by their suffix"
