"""Timed models: engines in this process, or models on a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mnserve.bench.file_target import FileTarget
from mnserve.bench.options import is_file_name
from mnserve.bench.server_process import server_process
from mnserve.bench.settings import BenchSettings
from mnserve.bench.timing import Call
from mnserve.client.blocking import Client
from mnserve.engines.base import EngineOptions
from mnserve.models.opened_model import OpenedModel
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.listing import list_models
from mnserve.repository.model_parameters import default_outputs

Array = np.ndarray[Any, Any]


class BenchTarget(Protocol):
    """Model that can be timed."""

    @property
    def config(self) -> ModelConfig:
        """Complete configuration of the model."""
        ...

    @property
    def version(self) -> str:
        """Version of the model."""
        ...

    @property
    def file(self) -> str | None:
        """Name of the file that runs; None for a model on a server, which does not tell."""
        ...

    def call(self, feeds: Mapping[str, Array], datatypes: Mapping[str, str]) -> Call:
        """Prepares a call with these inputs that fetches the default outputs; the preparation is not timed."""
        ...


@dataclass(frozen=True, kw_only=True)
class EngineTarget:
    """A model in this process: the engine alone, without batcher and transport."""

    model: OpenedModel

    @property
    def config(self) -> ModelConfig:
        """Complete configuration of the model."""
        return self.model.config

    @property
    def version(self) -> str:
        """Version that was loaded."""
        return str(self.model.version)

    @property
    def file(self) -> str:
        """Name of the file that runs."""
        return self.model.file

    def call(self, feeds: Mapping[str, Array], datatypes: Mapping[str, str]) -> Call:
        """Prepares one run of the engine."""
        run, outputs = self.model.engine.run, default_outputs(self.model.config)
        return lambda: run(feeds, outputs)


@dataclass(frozen=True, kw_only=True)
class ServerTarget:
    """A model on a server. A call builds the request, passes gRPC, queue and engine, and reads the answer."""

    client: Client
    config: ModelConfig
    version: str

    @property
    def file(self) -> None:
        """None, since the protocol has no field for the file."""
        return None

    def call(self, feeds: Mapping[str, Array], datatypes: Mapping[str, str]) -> Call:
        """Prepares one request."""
        infer, name = self.client.infer, self.config.name
        return lambda: infer(name, feeds, datatypes=datatypes)


@contextmanager
def open_targets(settings: BenchSettings) -> Iterator[list[BenchTarget]]:
    """Opens the model and any other model or ONNX file to compare with, loaded and ready to be timed.

    Raises:
        MnServeError: A model is missing or cannot be loaded, or the server cannot be started or reached.
    """
    names = [settings.model, *([] if settings.against is None else [settings.against])]
    with ExitStack() as stack:
        if settings.grpc:
            yield _on_server(settings, names, stack)
        else:
            root, options = Path(settings.repository), settings.engine_options
            model = EngineTarget(model=stack.enter_context(OpenedModel(root, settings.model, options)))
            yield [model, *(_other(root, name, options, stack) for name in names[1:])]


def _other(root: Path, name: str, options: EngineOptions, stack: ExitStack) -> BenchTarget:
    if is_file_name(name) and name not in list_models(root):
        return stack.enter_context(FileTarget.open(Path(name), options))
    return EngineTarget(model=stack.enter_context(OpenedModel(root, name, options)))


def _on_server(settings: BenchSettings, names: Sequence[str], stack: ExitStack) -> list[BenchTarget]:
    url = settings.url
    connection = None if url is None else settings.connection
    if url is None:
        url = stack.enter_context(server_process(Path(settings.repository), settings.server_arguments))
    client = stack.enter_context(Client(url, settings.timeout, connection))
    targets: list[BenchTarget] = []
    for name in names:
        versions = client.model_metadata(name).versions
        newest = max(versions, key=lambda text: int(text) if text.isdecimal() else -1, default="")
        targets.append(ServerTarget(client=client, config=client.model_config(name), version=newest))
    return targets
