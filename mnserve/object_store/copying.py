"""Copies of models as they are in a store now, linked in the folder that a process serves."""

from __future__ import annotations

import logging
from typing import Final

from mnserve.errors import RepositoryError, StoppingError, StoreError, StoreUnreachableError
from mnserve.object_store.cache import locked
from mnserve.object_store.copies import CopySource, find_copy, make_copy
from mnserve.object_store.entries import StoredFile, digest_of
from mnserve.object_store.room import remove_copy
from mnserve.object_store.selection import config_file, needed_files, read_stored_config
from mnserve.object_store.view import View
from mnserve.protocol.model_config_pb2 import ModelConfig

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
"""Copies in a row of a model that arrives damaged, or changes while it is copied, before it is given up."""


class _ChangedError(Exception):
    """A model has changed while it was copied."""


class Copying:
    """Brings models up to date, one at a time.

    Args:
        source: What copies are made from.
        view: The folder of links.
    """

    def __init__(self, source: CopySource, view: View) -> None:
        self._source = source
        self._view = view
        self._configs: dict[str, tuple[str, ModelConfig]] = {}
        """Model -> key of its config.pbtxt, and the content."""
        self._given_up: dict[str, tuple[str, RepositoryError]] = {}
        """Model -> content that could not be copied, which is not tried again before it changes."""

    def forget_failure(self, name: str) -> None:
        """Has the same content tried again."""
        self._given_up.pop(name, None)

    def update(self, name: str, override: ModelConfig | None = None) -> None:
        """Links the copy of a model as it is in the store now; makes the copy where there is none.

        Raises:
            StoreError: The store does not answer, or refuses.
            RepositoryError: The model is malformed, damaged, or has no room.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            files = self._needed(name, override)
            digest = digest_of(files)
            current = self._view.copy_of(name)
            if current is not None and current.name == digest and current.is_dir():
                return
            given_up, reason = self._given_up.get(name, ("", None))
            if given_up == digest and reason is not None:
                raise reason
            try:
                self._copy(name, files, override)
            except _ChangedError:
                continue
            except (StoreError, StoppingError):
                raise
            except RepositoryError as error:
                if attempt == _ATTEMPTS:
                    self._given_up[name] = digest, error
                    raise
                _log.warning("%s; it is copied again", error)
            else:
                return
        where = self._source.store.url.shown
        raise StoreUnreachableError(
            f"model '{name}' at {where} changes while it is copied; try again once it is uploaded"
        )

    def _copy(self, name: str, files: list[StoredFile], override: ModelConfig | None) -> None:
        source = self._source
        folder = source.cache.model_folder(source.store.url, name)
        with locked(folder, source.stopped):
            copy = find_copy(folder, files)
            if copy is None:
                _log.info("model '%s' is copied from %s", name, source.store.url.shown)
                copy = make_copy(source, folder, name, files)
                if digest_of(self._needed(name, override)) != digest_of(files):
                    remove_copy(copy)  # it may be half of one content and half of the other
                    raise _ChangedError
            self._view.link(name, copy)

    def _needed(self, name: str, override: ModelConfig | None) -> list[StoredFile]:
        """Lists the files of a model that are to be copied, with their tags."""
        files = self._source.store.files(name)
        config, file = override, config_file(files)
        if file is not None:
            (file,) = self._source.store.with_tags([file])
        if config is None:
            key = "" if file is None else file.key
            known, config = self._configs.get(name, (None, None))
            if config is None or known != key:
                config = read_stored_config(self._source.store, name, file)
                self._configs[name] = key, config
        others = [item for item in needed_files(config, files) if file is None or item.path != file.path]
        return [*([] if file is None else [file]), *self._source.store.with_tags(others)]
