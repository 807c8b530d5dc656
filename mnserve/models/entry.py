"""Entry of a model's name in a catalogue: its versions, and why others are not served."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mnserve.models.catalogue import Endpoint

_Served = TypeVar("_Served", bound=Endpoint)


@dataclass(kw_only=True)
class ModelEntry(Generic[_Served]):
    """Versions under one name of the repository.

    Attributes:
        served: Versions that are loaded.
        faults: Version -> reason for which it could not be loaded; None stands for a version that was not found.
        loaded: The model is to be served at all.
        lock: Held while the model is loaded or unloaded.
    """

    served: dict[int, _Served] = field(default_factory=dict)
    faults: dict[int | None, str] = field(default_factory=dict)
    loaded: bool = True
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
