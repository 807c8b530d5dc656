"""Models of a replica after a change of the repository."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path

from mnserve.errors import MnServeError
from mnserve.repository.listing import list_models
from mnserve.server import Server

_log = logging.getLogger(__name__)


async def reload_models(server: Server, repository: str, only: Collection[str] | None) -> str:
    """Loads the models as they are in the repository now; each takes the place of the one before in one step.

    Args:
        server: The server of the replica.
        repository: Its repository.
        only: Names of its models; None for all of the repository, with those that are new and without those that went.

    Returns:
        Why models were not loaded, which are served as before; empty where all were.
    """
    models = server.models
    try:
        names = await asyncio.to_thread(list_models, Path(repository))
    except MnServeError as error:
        return str(error)
    faults = []
    for name in names:
        if only is not None and name not in only:
            continue
        try:
            await models.load(name)
        except MnServeError as error:
            _log.error("%s", error)
            faults.append(str(error))
    for name in {state.name for state in models.states()} - set(names):
        await models.forget(name)
    return "; ".join(faults)
