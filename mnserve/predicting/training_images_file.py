"""Reading ``neighbors.npz``, which may come from anywhere: bounded, and nothing in it is run."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

from mnserve.errors import TrainingImagesError
from mnserve.predicting.training_images import ARRAYS, REMEDY, TrainingImages

MAX_BYTES = 128 * 1024 * 1024
"""Most bytes in the file, packed and unpacked; a file of a few kilobytes can claim far more and fill the memory."""


def read_training_images(file: Path) -> TrainingImages:
    """Reads a file that ``mnexport --explain`` has published.

    Raises:
        TrainingImagesError: The file is missing, damaged, too large, or no such file; the message names it.
    """
    if not os.path.isfile(file):  # unlike Path.is_file, False for names that are too long
        raise TrainingImagesError(f"there is no file {file} with training images; {REMEDY}")
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if max(size, file.stat().st_size) > MAX_BYTES:
            raise TrainingImagesError(
                f"{file} claims {size:,} bytes of training images, the limit is {MAX_BYTES:,}; {REMEDY}"
            )
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name]) for name in ARRAYS}
    except TrainingImagesError:
        raise
    except PermissionError:
        raise TrainingImagesError(f"{file} may not be read; check its permissions") from None
    except Exception as error:  # noqa: BLE001  unpacking and parsing fail with whatever they ran into
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise TrainingImagesError(f"{file} is no file of training images, or is damaged ({reason}); {REMEDY}") from None
    return TrainingImages(file=file, **arrays)
