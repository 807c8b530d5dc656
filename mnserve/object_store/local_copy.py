"""A repository or model folder as a local folder for the length of a command, wherever it is."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from mnserve.errors import MnServeError
from mnserve.object_store.mirror import Mirror
from mnserve.object_store.settings import StoreSettings
from mnserve.object_store.url import is_url


@contextlib.contextmanager
def local_copy(repository: str, settings: StoreSettings, only: Collection[str] | None = None) -> Iterator[Path]:
    """Copies models of a repository that is a URL; a folder is taken as it is.

    Messages of errors in the block name the URL, without credentials, in place of the copy.

    Args:
        repository: Folder or URL of the repository.
        settings: Settings of the cache.
        only: Names of the models; None for all.

    Raises:
        SettingsError: The URL cannot work, or the package of its store is not installed.
        RepositoryError: The store does not answer or refuses, or a copy cannot be made.
    """
    if not is_url(repository):
        yield Path(repository)
        return
    mirror = Mirror(repository, settings, only=only)
    try:
        with in_words_of_url(mirror.folder, mirror.shown):
            mirror.fetch()
            yield mirror.folder
    finally:
        mirror.close()


@contextlib.contextmanager
def in_words_of_url(folder: Path, shown: str) -> Iterator[None]:
    """Has messages of errors name a URL in place of the folder that stands for it."""
    try:
        yield
    except MnServeError as error:
        if str(folder) not in str(error):
            raise
        raise type(error)(str(error).replace(str(folder), shown)) from None
