"""Reader of ``neighbors.npz`` from any source: bounded in size, without running code from the file."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Final

import numpy as np

from mnserve.errors import TrainingImagesError
from mnserve.predicting.training_images import ARRAYS, REMEDY, TrainingImages

MAX_BYTES: Final = 128 * 1024 * 1024
"""Most bytes of the file, packed and unpacked; a file of a few kilobytes can claim far more and fill the memory."""


def read_training_images(file: Path, *, max_bytes: int = MAX_BYTES) -> TrainingImages:
    """Reads a file that ``mnexport --explain`` has published.

    Args:
        file: The file.
        max_bytes: Most bytes of the file, packed and unpacked.

    Raises:
        TrainingImagesError: The file is missing, damaged, too large, or of another kind; the message names it.
    """
    if not os.path.isfile(file):  # unlike Path.is_file, False for names that are too long
        raise TrainingImagesError(f"there is no file {file} with training images; {REMEDY}")
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if max(size, file.stat().st_size) > max_bytes:
            raise TrainingImagesError(
                f"{file} claims {size:,} bytes of training images, the limit is {max_bytes:,}; {REMEDY}"
            )
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name]) for name in ARRAYS}
    except TrainingImagesError:
        raise
    except PermissionError:
        raise TrainingImagesError(f"{file} may not be read; check its permissions") from None
    except Exception as error:  # noqa: BLE001  unpacking and parsing raise any kind of error on damaged files
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise TrainingImagesError(f"{file} is no file of training images, or is damaged ({reason}); {REMEDY}") from None
    return TrainingImages(file=file, **arrays)
