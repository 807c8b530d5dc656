"""The model of a prediction: on a server, or in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mnserve.client.blocking import Client
from mnserve.client.settings import ConnectionSettings
from mnserve.errors import ServerUnreachableError, SettingsError
from mnserve.models.opened_model import OpenedModel
from mnserve.object_store.local_copy import local_copy
from mnserve.object_store.settings import StoreSettings
from mnserve.object_store.url import is_url, split_model
from mnserve.protocol.model_config_pb2 import ModelConfig

Array = np.ndarray[Any, Any]


class CalledModel(Protocol):
    """A model that answers batches, on a server or in this process."""

    @property
    def config(self) -> ModelConfig:
        """Complete configuration of the model."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names found beside the model; empty without any."""
        ...

    @property
    def training_images(self) -> Path | None:
        """File of training images found beside the model; None without one."""
        ...

    def infer(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Runs one batch: input name -> array in, output name -> array out."""
        ...


class RemoteModel:
    """A model on a running server.

    Args:
        client: Connection to the server; stays open.
        name: Name of the model.

    Raises:
        ClientError: The server cannot be reached, or does not serve the model.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._config = client.model_config(name)

    @property
    def config(self) -> ModelConfig:
        """Configuration as the server completed it."""
        return self._config

    @property
    def labels(self) -> tuple[str, ...]:
        """Empty: a label file stays on the server; the configuration may still name the classes."""
        return ()

    @property
    def training_images(self) -> Path | None:
        """None: files stay on the server."""
        return None

    def infer(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Runs one batch on the server."""
        return self._client.infer(self._name, feeds, outputs)


def is_folder(model: str) -> bool:
    """Returns True if MODEL of the command line is a folder: it contains a ``/``, or is ``.`` or ``..``."""
    return os.sep in model or model in (os.curdir, os.pardir)


@contextmanager
def open_model(
    model: str,
    *,
    url: str,
    timeout: float,
    connection: ConnectionSettings | None = None,
    store: StoreSettings | None = None,
) -> Iterator[CalledModel]:
    """Opens a model by its name on the server at ``url``, or by its folder REPOSITORY/NAME to run in this process.

    The folder may be a URL of an object store.

    Raises:
        MnServeError: There is no such model, or it cannot be loaded.
    """
    if is_url(model):
        repository, name = split_model(model)
        with (
            local_copy(repository, store or StoreSettings(), only=[name]) as root,
            OpenedModel(root, name) as stored,
        ):
            yield stored
    elif is_folder(model):
        folder = Path(model).resolve()
        if not os.path.isdir(folder):  # unlike Path.is_dir, False for names that are too long
            raise SettingsError(
                f"there is no folder {model!r}; give a model folder REPOSITORY/NAME, or the bare name of a "
                "model on a running server"
            )
        with OpenedModel(folder.parent, folder.name) as local:
            yield local
    else:
        with Client(url, timeout, connection) as client:
            try:
                served = RemoteModel(client, model)
            except ServerUnreachableError as error:
                if os.path.isdir(model):
                    raise ServerUnreachableError(
                        f"{error}; to run the folder '{model}' without a server, write .{os.sep}{model}"
                    ) from error
                raise
            yield served
