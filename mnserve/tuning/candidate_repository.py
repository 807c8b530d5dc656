"""Temporary repository of links to one model, with a ``config.pbtxt`` of its own; the user's folder stays unchanged."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mnserve.errors import OutputError
from mnserve.models.warm_up_samples import FOLDER
from mnserve.repository.listing import CONFIG_NAME


@dataclass(frozen=True, kw_only=True)
class CandidateRepository:
    """Copy of one model whose configuration can be exchanged."""

    root: Path
    """Temporary folder of the repository."""
    model: str
    """Name of the model."""

    @classmethod
    @contextmanager
    def of(cls, root: Path, model: str) -> Iterator[CandidateRepository]:
        """Makes a repository of ``model`` for the duration of the block.

        Raises:
            OutputError: The folder cannot be made, for instance because the disk is full.
        """
        with ExitStack() as stack:
            with _errors_as_output_errors():
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mnserve-tune-"))
                repository = cls(root=Path(folder), model=model)
                repository._fill(root / model)
            yield repository

    def configure(self, text: str | None) -> None:
        """Replaces the ``config.pbtxt`` of the model; None deletes the file.

        Raises:
            OutputError: The file cannot be written.
        """
        path = self.root / self.model / CONFIG_NAME
        with _errors_as_output_errors():
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(text.encode())

    def _fill(self, source: Path) -> None:
        folder = self.root / self.model
        folder.mkdir()
        for entry in source.iterdir():
            if entry.name == CONFIG_NAME or entry.name.startswith("."):
                continue
            if entry.name == FOLDER and entry.is_dir() and not entry.is_symlink():
                # Samples may not be links that lead out of the folder of the model.
                shutil.copytree(entry, folder / entry.name, symlinks=True)
            else:
                (folder / entry.name).symlink_to(entry.absolute())


@contextmanager
def _errors_as_output_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot make a temporary repository in {tempfile.gettempdir()}: {error.strerror or error}; make room, or "
            "set TMPDIR to another folder"
        ) from error
