"""Lookup of the version of a model that a request names."""

from __future__ import annotations

from typing import Final, TypeVar

from mnserve.errors import InvalidRequestError, ModelNotReadyError, UnknownModelError
from mnserve.models.catalogue import Endpoint
from mnserve.models.entry import ModelEntry
from mnserve.repository.listing import MAX_VERSION_DIGITS

_Served = TypeVar("_Served", bound=Endpoint)

NOT_LOADED: Final = "it is not loaded; load it with RepositoryModelLoad"
"""Reason of a model that is in the repository and was not loaded."""

LOADING: Final = "it is being loaded; try again later"
"""Reason of a model that is not loaded yet."""


def find_version(name: str, entry: ModelEntry[_Served], version: str) -> _Served:
    """Finds the version of a model that a request names.

    Args:
        name: Name of the model.
        entry: State of the model.
        version: Version number; empty for the highest that is ready.

    Raises:
        UnknownModelError: The model is not served in this version.
        InvalidRequestError: The version is not a number.
        ModelNotReadyError: The version exists but cannot answer.
    """
    if version:
        return _named(name, entry, _number(version))
    ready = [number for number, model in entry.served.items() if model.fault is None]
    if ready:
        return entry.served[max(ready)]
    faults = [*entry.faults.values(), *(model.fault for model in entry.served.values() if model.fault)]
    raise ModelNotReadyError(f"model '{name}' is not ready: {'; '.join(faults) if entry.loaded else NOT_LOADED}")


def _named(name: str, entry: ModelEntry[_Served], version: int) -> _Served:
    if version in entry.served:
        model = entry.served[version]
        if model.fault is not None:
            raise ModelNotReadyError(f"model '{name}' version {version} is not ready: {model.fault}")
        return model
    if version in entry.faults:
        raise ModelNotReadyError(f"model '{name}' version {version} is not ready: {entry.faults[version]}")
    if not entry.loaded:
        raise ModelNotReadyError(f"model '{name}' is not ready: {NOT_LOADED}")
    known = ", ".join(map(str, sorted(entry.served))) or "none"
    raise UnknownModelError(f"model '{name}' has no version {version}; the server has {known}")


def _number(version: str) -> int:
    if not (version.isascii() and version.isdigit() and len(version) <= MAX_VERSION_DIGITS):
        raise InvalidRequestError(  # clients look for the first words, which are Triton's
            f"failed to get model version from specified version string '{version[:32]}': it is not a number; give one "
            "such as 1, or leave it out"
        )
    return int(version)
