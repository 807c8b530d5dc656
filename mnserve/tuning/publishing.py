"""Publication of the chosen configuration: checked as by a server, in one step, with a backup of the old file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from mnserve.atomic_files import write_atomically
from mnserve.engines.base import EngineOptions
from mnserve.engines.device import server_devices
from mnserve.errors import MnServeError, TuningError
from mnserve.models.load_options import LoadOptions
from mnserve.models.loading import load
from mnserve.repository.listing import CONFIG_NAME
from mnserve.repository.reader import list_versions, read_config, served_versions
from mnserve.text import text_files
from mnserve.tuning.candidate_repository import CandidateRepository

BACKUP_NAME: Final = f"{CONFIG_NAME}.before-tune"
"""Name of the backup of the old file; further backups get a number."""


def read_text(folder: Path) -> str | None:
    """Reads the ``config.pbtxt`` of a model, to the last character; None without the file.

    Raises:
        TuningError: The file cannot be read.
    """
    try:
        return text_files.read_text(folder / CONFIG_NAME)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TuningError(f"cannot read {folder / CONFIG_NAME} ({error}); repair it") from error


def publish(
    folder: Path, before: str | None, text: str, repository: CandidateRepository, options: EngineOptions
) -> Path | None:
    """Replaces the ``config.pbtxt`` of a model.

    Args:
        folder: Folder of the model.
        before: Content of the file at the start of the measurement; None without the file.
        text: New content of the file.
        repository: Repository for a trial of the text.
        options: Set-up of engines.

    Returns:
        Backup of the old file; None without an old file.

    Raises:
        TuningError: A server would refuse the text, or the file has changed meanwhile.
        OutputError: A file cannot be written; then ``config.pbtxt`` is unchanged.
    """
    repository.configure(text)
    _check(repository, options)
    if read_text(folder) != before:
        raise TuningError(
            f"{folder / CONFIG_NAME} was changed while this measured, so that it is left as it is; tune again"
        )
    backup = None
    if before is not None:
        backup = _free_name(folder)
        write_atomically(backup, before.encode())
    write_atomically(folder / CONFIG_NAME, text.encode())
    return backup


def _check(repository: CandidateRepository, options: EngineOptions) -> None:
    root, model = repository.root, repository.model
    options = replace(options, devices=server_devices(options))
    try:
        for version in served_versions(read_config(root, model), list_versions(root, model)):
            load(root, model, version, LoadOptions(engine=options, warm_up=False)).engine.close()
    except MnServeError as error:
        raise TuningError(
            f"the configuration that was found would be refused ({error}); nothing was written"
        ) from error


def _free_name(folder: Path) -> Path:
    """Returns an unused name for a backup. Earlier ones stay, since they may have comments that later ones lack."""
    path, number = folder / BACKUP_NAME, 1
    while path.exists() or path.is_symlink():
        number += 1
        path = folder / f"{BACKUP_NAME}-{number}"
    return path
