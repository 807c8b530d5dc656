"""Read folders of idx files: MNIST, Fashion-MNIST and sets made like them.

The idx format: two zero bytes, a byte for the element type (0x08 is uint8), a byte for the number of dimensions, each
dimension as a big-endian uint32, then the elements.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mntrain.data.account import Ignored, SourceAccount
from mntrain.data.config import DataConfig
from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageSet, SourceImages
from mntrain.data.labels import check_in_range, listing, number_names
from mntrain.data.reading.labelled_arrays import LabelledArrays, choose_arrays
from mntrain.data.reading.pixel_account import PixelCensus
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
        ConfigError: ``data.classes`` does not fit.
    """
    if not folder.is_dir():
        state = "is a file, not a folder" if folder.exists() else "does not exist"
        raise DataError(f"The folder of idx files '{folder}' {state}; {remedy}")
    files = {split: _find_pair(folder, prefix, remedy) for split, prefix in _PREFIXES.items()}
    pixels, labels = {}, {}
    for split, (image_file, label_file) in files.items():
        pixels[split], labels[split] = _read_split(image_file, label_file)
    if names is None:
        names = _number_classes(labels, folder)
    for split, values in labels.items():
        check_in_range(values, len(names), where=f"'{folder}', {split} split")
    arrays = LabelledArrays(pixels=pixels, labels=labels, names=names)
    arrays = choose_arrays(arrays, config.class_patterns, where=f"'{folder}'")
    images = {
        split: from_grey(part, color=config.color, size=config.image_size, fit=config.image_fit)
        for split, part in arrays.pixels.items()
    }
    census = PixelCensus()
    for part in arrays.pixels.values():
        census.add(part.shape[2], part.shape[1], "L", len(part))
    return SourceImages(
        splits={split: ImageSet(images=images[split], labels=arrays.labels[split]) for split in files},
        label_names=arrays.names,
        positions=arrays.positions,
        account=SourceAccount(
            location=str(folder),
            layout="idx files of images and labels",
            splits="by the names of files: train and t10k",
            ignored=(*_ignored(folder, [file for pair in files.values() for file in pair]), *arrays.ignored),
            **census.account(images["train"], config),
        ),
    )


def _number_classes(labels: dict[str, IndexArray], folder: Path) -> tuple[str, ...]:
    """Turn the labels of every split, in place, into positions in the classes of the train split; return their names.

    Raises:
        DataError: a label of another split is not among those of the train split.
    """
    known = np.unique(labels["train"])
    for split, values in labels.items():
        unknown = np.setdiff1d(values, known)
        if len(unknown):
            raise DataError(
                f"'{folder}': the {split} split holds the labels {listing(unknown.tolist())}, which the train split "
                "does not have; add training images of each, or remove those images."
            )
        labels[split] = np.searchsorted(known, values).astype(np.int64)
    return number_names(known, where=f"'{folder}'")


def _ignored(folder: Path, used: list[Path]) -> tuple[Ignored, ...]:
    others = sorted(file.name for file in folder.iterdir() if file not in used)
    return (Ignored.of("no idx file of this set", others),) if others else ()


def _find_pair(folder: Path, prefix: str, remedy: str) -> tuple[Path, Path]:
    return _find(folder, f"{prefix}-images-idx3-ubyte", remedy), _find(folder, f"{prefix}-labels-idx1-ubyte", remedy)


def _read_split(image_file: Path, label_file: Path) -> tuple[NDArray[np.uint8], IndexArray]:
    images, labels = read_idx(image_file, dimensions=3), read_idx(label_file, dimensions=1)
    if len(images) != len(labels):
        raise DataError(
            f"'{image_file}' holds {len(images)} images, but '{label_file}' holds {len(labels)} labels; "
            "they must be of the same set, so replace the wrong one."
        )
    if images.size == 0:
        raise DataError(f"'{image_file}' holds no pixels (shape {list(images.shape)}); replace it.")
    return images, labels.astype(np.int64)


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
