"""The file of a page: it is checked before minutes of work, and written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mntrain.atomic_files import write_text_atomically
from mntrain.errors import TrainingError


def check_file(page: Path, option: str) -> None:
    """Check that ``page`` is no folder.

    Args:
        page: to write.
        option: of the command line that names it.

    Raises:
        TrainingError: it is one.
    """
    if page.is_dir():
        raise TrainingError(f"Page {page} cannot be written: it is a folder. Choose another {option}.")


def check_writable(page: Path, option: str) -> None:
    """Check that the folder of ``page`` takes a file; it is made if missing.

    Raises:
        TrainingError: it does not.
    """
    check_file(page, option)
    with _writing(page, option):
        page.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(page.parent, os.W_OK):
        raise TrainingError(f"Page {page} cannot be written: its folder takes no files. Choose another {option}.")


def write_page(page: Path, html: str, option: str) -> None:
    """Write ``html`` to ``page``.

    Raises:
        TrainingError: it cannot be written.
    """
    with _writing(page, option):
        write_text_atomically(page, html)


@contextmanager
def _writing(page: Path, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TrainingError(
            f"Page {page} cannot be written: {error.strerror or error}. Choose another {option}."
        ) from error
