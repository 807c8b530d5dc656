"""Read folders of idx files: MNIST, Fashion-MNIST and sets made like them.

The idx format: two zero bytes, a byte for the element type (0x08 is uint8), a byte for the number of dimensions, each
dimension as a big-endian uint32, then the elements.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mntrain.data.account import Ignored, SourceAccount
from mntrain.data.config import DataConfig
from mntrain.data.images import ImageSet, SourceImages
from mntrain.data.labels import check_contiguous, check_in_range
from mntrain.data.reading.pixels import from_grey
from mntrain.errors import DataError
from mntrain.regular_files import regular

_PREFIXES = {"train": "train", "test": "t10k"}
_UINT8 = 0x08


def load_folder(folder: Path, config: DataConfig, *, names: tuple[str, ...] | None, remedy: str) -> SourceImages:
    """Load the ``train`` and ``test`` splits of a folder.

    Args:
        folder: holds the four files of images and labels.
        config: colour and size of the images.
        names: of the classes; None names them by their number.
        remedy: end of the message where a file or the folder is missing.

    Raises:
        DataError: the folder or a file is missing, a file is corrupt, or images and labels do not match.
    """
    if not folder.is_dir():
        state = "is a file, not a folder" if folder.exists() else "does not exist"
        raise DataError(f"The folder of idx files '{folder}' {state}; {remedy}")
    files = {split: _find_pair(folder, prefix, remedy) for split, prefix in _PREFIXES.items()}
    read = {split: _read_split(*pair, config=config) for split, pair in files.items()}
    splits = {split: part for split, (part, _) in read.items()}
    labels = {split: part.labels for split, part in splits.items()}
    if names is None:
        names = tuple(str(label) for label in range(check_contiguous(labels, where=f"'{folder}'")))
    for split, values in labels.items():
        check_in_range(values, len(names), where=f"'{folder}', {split} split")
    used = {file for pair in files.values() for file in pair}
    sizes: Counter[str] = Counter()
    for part, size in read.values():
        sizes[size] += len(part)
    account = SourceAccount(
        location=str(folder),
        layout="idx files of images and labels",
        ignored=_ignored(folder, used),
        sizes=sizes,
        colors={"L": sum(sizes.values())},
    )
    return SourceImages(splits=splits, label_names=names, account=account)


def _ignored(folder: Path, used: set[Path]) -> tuple[Ignored, ...]:
    names = sorted(entry.name for entry in folder.iterdir() if entry not in used)
    return (Ignored.of("not among the four idx files", names),) if names else ()


def _find_pair(folder: Path, prefix: str, remedy: str) -> tuple[Path, Path]:
    images, labels = f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"
    return _find(folder, images, remedy), _find(folder, labels, remedy)


def _read_split(image_file: Path, label_file: Path, *, config: DataConfig) -> tuple[ImageSet, str]:
    """Read the images and labels of a split, and the size of the images as found."""
    images, labels = read_idx(image_file, dimensions=3), read_idx(label_file, dimensions=1)
    if len(images) != len(labels):
        raise DataError(
            f"'{image_file}' holds {len(images)} images, but '{label_file}' holds {len(labels)} labels; "
            "they must be of the same set, so replace the wrong one."
        )
    if images.size == 0:
        raise DataError(f"'{image_file}' holds no pixels (shape {list(images.shape)}); replace it.")
    part = ImageSet(
        images=from_grey(images, color=config.color, size=config.image_size, fit=config.image_fit),
        labels=labels.astype(np.int64),
    )
    return part, f"{images.shape[2]}x{images.shape[1]}"


def _find(folder: Path, name: str, remedy: str) -> Path:
    # The name with a dot before "idx" is an old misspelling that unpacked copies of MNIST still carry.
    for candidate in (name, f"{name}.gz", name.replace("-idx", ".idx")):
        if (folder / candidate).is_file():
            return folder / candidate
    raise DataError(f"'{folder}' has no file '{name}' or '{name}.gz'; {remedy}")


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """Read the uint8 array of ``dimensions`` dimensions in an idx file, gzipped if its name ends in ``.gz``.

    Raises:
        DataError: the file cannot be read or unpacked, or its header and its length do not agree.
    """
    try:
        content = regular(path).read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"'{path}' is a damaged gzip file ({error}); fetch it again.") from error
    except OSError as error:
        raise DataError(f"'{path}' cannot be read ({error.strerror or error}); check its permissions.") from error
    expected = bytes((0, 0, _UINT8, dimensions))
    if content[:4] != expected:
        raise DataError(
            f"'{path}' starts with the bytes {content[:4].hex(' ') or '(none)'}, but an idx file of "
            f"{dimensions} dimension(s) of uint8 starts with {expected.hex(' ')}; it is another kind of file "
            "or corrupt, so fetch it again."
        )
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise DataError(f"'{path}' ends within its header, after {len(content)} bytes; fetch it again.")
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=dimensions, offset=4))
    announced = int(np.prod(shape, dtype=object))
    if len(content) - header != announced:
        raise DataError(
            f"'{path}' announces {' x '.join(map(str, shape))} = {announced} elements, but holds "
            f"{len(content) - header}; it is truncated or corrupt, so fetch it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)
