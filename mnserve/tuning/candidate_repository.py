"""A repository of links to one model, with a ``config.pbtxt`` of its own: nothing is tried out in the user's folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mnserve.errors import OutputError
from mnserve.models.warm_up_samples import FOLDER
from mnserve.repository.reader import CONFIG_NAME


@dataclass(frozen=True, kw_only=True)
class CandidateRepository:
    """One model of another repository whose configuration can be exchanged."""

    root: Path
    """The repository: a temporary folder."""
    model: str
    """Name of its one model."""

    @classmethod
    @contextmanager
    def of(cls, root: Path, model: str) -> Iterator[CandidateRepository]:
        """A repository of ``model`` for the duration of the block.

        Raises:
            OutputError: it cannot be made, for instance because the disk is full.
        """
        with ExitStack() as stack:
            with _told():
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mnserve-tune-"))
                made = cls(root=Path(folder), model=model)
                made._fill(root / model)
            yield made

    def configure(self, text: str | None) -> None:
        """Gives the model another ``config.pbtxt``; None for none at all.

        Raises:
            OutputError: it cannot be written.
        """
        path = self.root / self.model / CONFIG_NAME
        with _told():
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
                # Samples may not be links that lead out of the model's folder.
                shutil.copytree(entry, folder / entry.name, symlinks=True)
            else:
                (folder / entry.name).symlink_to(entry.absolute())


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot make a temporary repository in {tempfile.gettempdir()}: {error.strerror or error}; make room, or "
            "set TMPDIR to another folder"
        ) from error
