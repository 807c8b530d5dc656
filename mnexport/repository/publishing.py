"""Publishing: a model is added to a repository whole or not at all, one export at a time.

A new model appears by renaming a finished folder, and so does a further version inside the model's folder. Where the
only version is replaced by one with another signature, the model's folder is replaced whole, so that no
server finds a model under a configuration that does not fit it. Names in the making, and the lock, start with a dot.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnexport.errors import PublishError
from mnexport.progress import OnProgress
from mnexport.repository.layout import CONFIG_NAME, LABELS_NAME, README_MARK, README_NAME, RECORD_NAME
from mnexport.repository.model_card import ModelCard
from mnexport.repository.target import Target, agrees, check_target, kinds_of, sha256
from mntrain.atomic_files import folder_atomically, remove_abandoned, temporary_folder
from mntrain.regular_files import read_text

# Attempts to lock: the repository may vanish between making it and locking in it.
_ATTEMPTS = 50
_PAUSE = 0.005  # seconds


@contextmanager
def locked(target: Target) -> Iterator[None]:
    """Lock a model while the block runs: no other export chooses a version of it or publishes one.

    The lock waits for its turn. It is a file ``.NAME.lock`` in the repository, which is gone afterwards. A repository
    that had to be made for it is removed again if it stayed empty.

    Raises:
        PublishError: the repository cannot be written or locked, or an OSError left the block.
    """
    repository = target.repository
    made: list[Path] = []
    try:
        if repository.is_file():
            raise PublishError(f"{repository} is a file, not a model repository; give REPOSITORY/NAME.")
        path = repository / f".{target.name}.lock"
        handle = _acquire(path, made)
        try:
            yield
        finally:
            # Removed while still held: an export that waits on the removed file notices and starts again.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(handle)
    except OSError as error:
        raise PublishError(
            f"{target.folder} cannot be written: {error.strerror or error}. Nothing was published."
        ) from error
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # in use by now
                folder.rmdir()


@contextmanager
def publishing(target: Target, version: int, card: ModelCard, readme: str = "") -> Iterator[Path]:
    """Make a folder for the files of a version, and publish it when the block ends without an error.

    The model must be locked. A page ``readme`` replaces none that a person wrote.

    Raises:
        OSError: the repository cannot be written; nothing was published.
        PublishError: the version was published, but a file that describes the model could not be replaced.
    """
    remove_abandoned(target.repository)
    fits = agrees(target, card)
    # Where no version fits, this one is the only one, and takes the place of itself.
    kinds = (kinds_of(target) if fits else {}) | {version: card.kind}
    texts = {CONFIG_NAME: card.config_pbtxt(target.name, kinds)}
    if (labels := card.labels_txt()) is not None:
        texts = {LABELS_NAME: labels} | texts
    if readme and _may_replace(target.folder / README_NAME):
        texts = {README_NAME: readme} | texts
    if fits:
        with _staged(target.folder, texts) as staged:
            changed = sorted(item.name for item in staged.iterdir())
            with folder_atomically(target.folder / str(version)) as folder:
                yield folder
            _put_in_place(staged, changed, target.folder, version)
        return
    with folder_atomically(target.folder) as model:
        _copy_others(target.folder, model, {*texts, str(version)})
        for name, text in texts.items():
            (model / name).write_text(text, encoding="utf-8")
        folder = model / str(version)
        folder.mkdir()
        yield folder


def publish_files(
    target: Target,
    card: ModelCard,
    files: Path,
    record: Mapping[str, Any],
    on_progress: OnProgress,
    readme: str = "",
) -> Path:
    """Publish a folder of files as a version, with its record beside them; returns the folder of the version.

    Args:
        target: of the export.
        card: description of the model.
        files: folder of the files.
        record: content of ``export.json`` without version and digests.
        on_progress: gets a line of text when the place is certain.
        readme: model card; empty for none.

    Raises:
        PublishError: the repository cannot take the export.
    """
    with locked(target):
        number = check_target(target, card)
        on_progress(f"publishing {target.folder / str(number)}")
        with publishing(target, number, card, readme) as folder:
            for item in files.iterdir():
                (folder / item.name).write_bytes(item.read_bytes())
            digests = {item.name: sha256(folder / item.name) for item in files.iterdir()}
            content = {**record, "version": number, "sha256": digests}
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            (folder / RECORD_NAME).write_text(text, encoding="utf-8")
    return target.folder / str(number)


def _may_replace(readme: Path) -> bool:
    """Tell if a page is missing or of an earlier export; one that cannot be read stays."""
    try:
        return README_MARK in read_text(readme)
    except FileNotFoundError:
        return not os.path.lexists(readme)
    except (OSError, ValueError):
        return False


def _acquire(path: Path, made: list[Path]) -> int:
    """Lock ``path`` and return the open file that holds the lock; folders that had to be made are added to ``made``."""
    missing = 0
    while True:
        made += [item for item in (path.parent, *path.parent.parents) if not item.exists() and item not in made]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except (FileNotFoundError, FileExistsError):
            # Another export that failed may just have removed the repository that it had made.
            missing += 1
            if missing == _ATTEMPTS:
                raise
            time.sleep(_PAUSE)
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_same_file(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_same_file(path: Path, handle: int) -> bool:
    """Tell if ``path`` is the file that ``handle`` has open: its last holder may have removed it in the meantime."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextmanager
def _staged(model: Path, texts: Mapping[str, str]) -> Iterator[Path]:
    """Write ``texts`` that differ from the files of ``model`` into a folder inside it, until the block ends."""
    with temporary_folder(model) as folder:
        for name, text in texts.items():
            old = model / name
            if not old.is_file() or old.read_bytes() != text.encode():
                with (folder / name).open("w", encoding="utf-8", newline="") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
        yield folder


def _put_in_place(staged: Path, names: list[str], model: Path, version: int) -> None:
    """Rename the staged texts into the model's folder, where ``version`` already is."""
    left = names.copy()
    try:
        while left:
            (staged / left[0]).replace(model / left[0])
            del left[0]
    except OSError as error:
        raise PublishError(
            f"{model} version {version} was published, but not its {' and '.join(left)} "
            f"({error.strerror or error}), so what stood there before still describes the model; "
            f"export again with --version {version} --overwrite."
        ) from error


def _copy_others(old: Path, new: Path, replaced: set[str]) -> None:
    """Copy files that other programs put into the model's folder."""
    if not old.is_dir():
        return
    for item in old.iterdir():
        if item.name in replaced or item.name.startswith("."):
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.copytree(item, new / item.name, symlinks=True)
        else:
            shutil.copy2(item, new / item.name, follow_symlinks=False)
