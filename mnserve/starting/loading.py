"""Loading of the models that a server has from its start."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from mnserve.errors import StartError, UnknownModelError
from mnserve.models.polling import LOAD_PATIENCE, Poller
from mnserve.models.registry import Models
from mnserve.repository.listing import look_through
from mnserve.settings import ALL_MODELS, ServeSettings


async def load_at_start(
    models: Models,
    settings: ServeSettings,
    left_out: Mapping[str, str] = MappingProxyType({}),
    *,
    only: Collection[str] | None = None,
) -> Poller | None:
    """Loads the models that a server has from its start.

    Args:
        models: Models of the repository, none of them loaded.
        settings: Settings of the command line.
        left_out: Name -> reason for which a model is not loaded now.
        only: Names of the models to load; None loads those that the settings ask for.

    Returns:
        What follows the changes of the repository, to be run; None where nothing does.

    Raises:
        RepositoryNotFoundError: The repository is no folder.
        StartError: A model that was asked for does not exist.
    """
    root = Path(settings.repository)
    poller = None
    if settings.model_control == "poll":
        poller = Poller(root, models, settings.poll_seconds, allow_empty=settings.allow_empty)
        await poller.look()  # before the models are loaded, so that no change is missed
    else:
        (await asyncio.to_thread(look_through, root)).log_left_out()
    every = settings.model_control != "explicit" or ALL_MODELS in settings.load_model
    try:
        patience = None if settings.strict else LOAD_PATIENCE
        asked = None if every else settings.load_model
        await models.load_all(asked if only is None else only, patience, left_out)
    except UnknownModelError as error:
        raise StartError(f"{error}; correct --load-model") from error
    return poller
