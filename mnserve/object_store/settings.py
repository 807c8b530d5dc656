"""Settings of repositories that are URLs: the cache of their models, and the patience with their store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mnserve.errors import SettingsError

_MAX_SECONDS = 86_400


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Models of an object store (REPOSITORY is a URL).

    Raises:
        SettingsError: A value cannot work; the message names the option, the value and the remedy.
    """

    model_cache: str = ""
    """Folder for copies of models, where REPOSITORY is a URL; empty is mnserve/models in the user's cache folder."""
    model_cache_bytes: int = 0
    """Most bytes of copies; the copies that were unused for longest make room. 0 leaves the disk as the only bound."""
    store_timeout: float = 60.0
    """Seconds in which an object store has to answer, or to send the next 8 MiB."""
    store_patience: float = 60.0
    """Seconds at the start in which an object store that does not answer is tried again."""

    def __post_init__(self) -> None:
        if self.model_cache_bytes < 0:
            raise SettingsError(
                f"--model-cache-bytes is {self.model_cache_bytes}; it must be 0 (no bound but the disk) or more"
            )
        if "\0" in self.model_cache:
            raise SettingsError("--model-cache has a NUL in it; give the name of a folder")
        if not 0.1 <= self.store_timeout <= _MAX_SECONDS:
            raise SettingsError(
                f"--store-timeout is {self.store_timeout}; it must be from 0.1 to {_MAX_SECONDS} seconds"
            )
        if not 0 <= self.store_patience <= _MAX_SECONDS:
            raise SettingsError(
                f"--store-patience is {self.store_patience}; it must be from 0 to {_MAX_SECONDS} seconds"
            )

    @property
    def cache_folder(self) -> Path:
        """Folder of the cache, by the XDG rules where none is set.

        Raises:
            SettingsError: The user has no home folder.
        """
        if self.model_cache:
            return Path(os.path.abspath(self.model_cache))
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # the XDG rules have relative paths ignored
            try:
                base = str(Path.home() / ".cache")
            except RuntimeError as error:
                raise SettingsError(
                    "there is no home folder for the copies of models; name a folder with --model-cache"
                ) from error
        return Path(base) / "mnserve" / "models"
