"""The chosen configuration put in place: checked as a server checks it, in one step, with the old file kept."""

from __future__ import annotations

from pathlib import Path

from mnserve.atomic_files import write_atomically
from mnserve.engines.base import EngineOptions
from mnserve.errors import MnServeError, TuningError
from mnserve.models.loading import LoadOptions, load
from mnserve.repository.reader import CONFIG_NAME, list_versions, read_config, served_versions
from mnserve.tuning.candidate_repository import CandidateRepository

KEPT_NAME = f"{CONFIG_NAME}.before-tune"
"""Name under which the file that was there before is kept; further ones get a number."""


def read_text(folder: Path) -> str | None:
    """What a model's ``config.pbtxt`` says, to the last character; None where there is no such file.

    Raises:
        TuningError: it cannot be read.
    """
    try:
        return (folder / CONFIG_NAME).read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise TuningError(f"cannot read {folder / CONFIG_NAME} ({error}); repair it") from error


def publish(
    folder: Path, before: str | None, text: str, repository: CandidateRepository, options: EngineOptions
) -> Path | None:
    """Replaces a model's ``config.pbtxt``.

    Args:
        folder: the model's folder.
        before: what the file said when the measurement began; None where there was none.
        text: what it is to say.
        repository: where the text is tried out first.
        options: how engines are set up.

    Returns:
        Where the old file is kept; None where there was none.

    Raises:
        TuningError: a server would refuse the text, or somebody has changed the file meanwhile.
        OutputError: a file cannot be written; then nothing is replaced.
    """
    repository.configure(text)
    _check(repository, options)
    if read_text(folder) != before:
        raise TuningError(
            f"{folder / CONFIG_NAME} was changed while this measured, so that it is left as it is; tune again"
        )
    kept = None
    if before is not None:
        kept = _free_name(folder)
        write_atomically(kept, before.encode())
    write_atomically(folder / CONFIG_NAME, text.encode())
    return kept


def _check(repository: CandidateRepository, options: EngineOptions) -> None:
    root, model = repository.root, repository.model
    try:
        for version in served_versions(read_config(root, model), list_versions(root, model)):
            load(root, model, version, LoadOptions(engine=options, warm_up=False)).engine.close()
    except MnServeError as error:
        raise TuningError(
            f"the configuration that was found would be refused ({error}); nothing was written"
        ) from error


def _free_name(folder: Path) -> Path:
    """A name that no earlier file is kept under: the first of them may have comments that later ones lack."""
    path, number = folder / KEPT_NAME, 1
    while path.exists() or path.is_symlink():
        number += 1
        path = folder / f"{KEPT_NAME}-{number}"
    return path
