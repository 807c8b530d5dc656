"""Models by name and version, with their states: what every catalogue has, wherever its models run."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from mnserve.errors import ModelNotReadyError, UnknownModelError
from mnserve.models.catalogue import Endpoint, ModelState
from mnserve.models.entry import ModelEntry
from mnserve.models.version_lookup import NOT_LOADED, find_version
from mnserve.text.names import listed

_Served = TypeVar("_Served", bound=Endpoint)


class CatalogueView(Generic[_Served]):
    """Looks models up and tells their states.

    Args:
        empty_is_ready: Be ready without any model that is to be served.
    """

    def __init__(self, *, empty_is_ready: bool) -> None:
        self._empty_is_ready = empty_is_ready
        self._entries: dict[str, ModelEntry[_Served]] = {}
        self._stopping = False
        self.closing = asyncio.Event()
        """Set once no new request is admitted."""

    def states(self) -> list[ModelState]:
        """Lists all models, by name and version."""
        states: list[ModelState] = []
        for name, entry in sorted(self._entries.items()):
            for version, served in entry.served.items():
                states.append(ModelState(name=name, version=version, served=served, reason=self._reason(served)))
            for failed, reason in entry.faults.items():
                states.append(ModelState(name=name, version=failed, served=None, reason=reason))
            if not entry.loaded:
                states.append(ModelState(name=name, version=None, served=None, reason=NOT_LOADED, loaded=False))
        return sorted(states, key=lambda state: (state.name, state.version or 0))

    @property
    def ready(self) -> bool:
        """True if every model that is to be served answers requests, and there is one, or none is needed."""
        states = [state.ready for state in self.states() if state.loaded]
        return not self._stopping and all(states) and (self._empty_is_ready or bool(states))

    def is_served(self, name: str) -> bool:
        """Finds if any version of a model is loaded; False for a model that does not exist."""
        return name in self._entries and bool(self._entries[name].served)

    def find(self, name: str, version: str = "") -> _Served:
        """Finds the model that a request means, ready or stopping.

        Args:
            name: Name of the model.
            version: Its version; empty is the highest that is ready.

        Raises:
            UnknownModelError: There is no such model, or it is not served in this version.
            InvalidRequestError: The version is not a number.
            ModelNotReadyError: The model is there but cannot answer.
        """
        entry = self._entry(name)
        if not version and entry.served:
            newest = entry.served[max(entry.served)]
            if newest.fault is None:
                return newest
        return find_version(name, entry, version)

    def check_known(self, name: str) -> None:
        """Checks that there is a model of a name, loaded or not.

        Raises:
            UnknownModelError: There is none.
        """
        self._entry(name)

    def _entry(self, name: str) -> ModelEntry[_Served]:
        if name not in self._entries:
            # Clients look for the first words, which are Triton's.
            raise UnknownModelError(
                f"Request for unknown model: there is no model '{name[:64]}'; the server has "
                f"{listed(sorted(self._entries))}"
            )
        return self._entries[name]

    def is_ready(self, name: str, version: str = "") -> bool:
        """Finds if a model answers requests; False for one that does not exist.

        Raises:
            InvalidRequestError: The version is not a number.
        """
        try:
            return not self._reason(self.find(name, version))
        except (UnknownModelError, ModelNotReadyError):
            return False

    def _reason(self, served: _Served) -> str:
        """Tells why a loaded version is not ready; empty where it is."""
        return served.fault or ("the server is stopping" if self._stopping else "")
