"""An engine process: the models of the server with their batchers and engines, behind links to the front ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnserve.channel.memory import SharedMemory
from mnserve.channel.pages import CounterPage
from mnserve.channel.wire_errors import error_fields
from mnserve.engine_links.front_end_link import FrontEndLink, LinkMemories
from mnserve.errors import MnServeError
from mnserve.execution.garbage import keep_for_good
from mnserve.models.load_options import LoadOptions
from mnserve.models.registry import Models
from mnserve.observability.log_settings import LogControl, LogValue
from mnserve.observability.logs import configure
from mnserve.processes.calls import Answerer, Arguments
from mnserve.processes.child_side import Supervision, supervised
from mnserve.processes.control import Message
from mnserve.processes.engine_counters import batches_message
from mnserve.processes.publishing import Publisher
from mnserve.processes.settings_message import settings_from_message
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.listing import list_models
from mnserve.settings import ServeSettings
from mnserve.starting.loading import load_at_start


class EngineProcess:
    """Loads the models, serves the links, and does what the supervisor asks for.

    Args:
        supervision: Control socket to the supervisor.
    """

    def __init__(self, supervision: Supervision) -> None:
        self._send = supervision.send
        self._methods = {
            "load": self._load,
            "unload": self._unload,
            "batches": self._batches,
            "drain": self._drain,
        }
        self._answerer = Answerer(lambda method, arguments: self._methods[method](arguments), supervision.send)
        self._loaded = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._polling: asyncio.Task[None] | None = None
        self._log_control: LogControl | None = None
        self._models: Models | None = None
        self._publisher: Publisher | None = None
        self._links: set[FrontEndLink] = set()
        supervision.open(self._take)

    def _take(self, message: Message, fds: list[int]) -> None:
        kind = message["kind"]
        if self._answerer.take(message):
            return
        if kind == "start":
            self._begin(message, fds)
        elif kind == "link":
            self._link(fds)
        elif kind == "log":
            self._change_log(message["changes"])
        elif kind == "stopping":
            self._stop()

    def _begin(self, message: Message, fds: list[int]) -> None:
        settings = settings_from_message(ServeSettings, message["settings"])
        configure(settings.log_level, settings.log_format)
        if message["cpus"]:
            os.sched_setaffinity(0, message["cpus"])
        device, devices = message["device"], tuple(message["devices"])
        page = CounterPage.from_fd(fds[0])
        options = replace(LoadOptions.of_server(settings, device, devices), on_load=self._tell_of_load)
        self._models = models = Models(Path(settings.repository), options, self._changed)
        self._log_control = LogControl(settings.log_format)
        self._publisher = Publisher(models, page.cells, self._send)
        self._run(self._publisher.watch())
        self._run(self._load_all(settings, message))

    def _link(self, fds: list[int]) -> None:
        assert self._publisher is not None
        sock, requests, answers = fds
        memories = LinkMemories(SharedMemory.from_fd(requests), SharedMemory.from_fd(answers))
        link = FrontEndLink(
            socket.socket(fileno=sock), memories, self._publisher.endpoints, lambda _: self._links.discard(link)
        )
        self._links.add(link)

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Models ---------------------------------------------------------------------------------------------------

    async def _load_all(self, settings: ServeSettings, message: Message) -> None:
        assert self._models is not None
        wanted: dict[str, str | None] = message["wanted"]
        try:
            if message["again"] and settings.model_control == "explicit":
                there = await asyncio.to_thread(list_models, Path(settings.repository))
                settings = replace(settings, load_model=tuple(name for name in there if wanted.get(name, "") is None))
            poller = await load_at_start(self._models, settings, message["left_out"])
            for name, config in ((name, config) for name, config in wanted.items() if config is not None):
                with contextlib.suppress(MnServeError):  # logged, and a fault of the model
                    await self._models.load(name, ModelConfig.FromString(b64decode(config)))
        except Exception as error:  # noqa: BLE001 (goes to the supervisor)
            self._send("failed", error=error_fields(error))
            return
        self._changed()
        keep_for_good()
        self._send("started")
        self._loaded.set()
        if poller is not None:
            self._polling = asyncio.get_running_loop().create_task(poller.run())

    def _tell_of_load(self, name: str, begins: bool) -> None:
        self._send("loading", name=name, begins=begins)

    def _changed(self) -> None:
        if self._publisher is not None:
            self._publisher.update()

    async def _load(self, arguments: Arguments) -> None:
        assert self._models is not None
        await self._loaded.wait()
        config = arguments["config"]
        override = None if config is None else ModelConfig.FromString(b64decode(config))
        await self._models.load(arguments["name"], override)

    async def _unload(self, arguments: Arguments) -> None:
        assert self._models is not None
        await self._loaded.wait()
        await self._models.unload(arguments["name"])

    async def _batches(self, _: Arguments) -> list[dict[str, Any]]:
        assert self._models is not None
        return [batches_message(counters) for counters in self._models.counters()]

    def _change_log(self, changes: dict[str, LogValue]) -> None:
        assert self._log_control is not None
        self._log_control.change(changes)

    # End ------------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._loaded.set()  # loads that wait are refused
        if self._polling is not None:
            self._polling.cancel()
        if self._models is not None:
            self._models.stop()

    async def _drain(self, arguments: Arguments) -> bool:
        """Finishes what was admitted; tells if all of it was finished in time, and no thread hangs in an engine."""
        self._stop()
        return self._models is None or await self._models.drain(arguments["timeout"])


async def _main(supervision: Supervision) -> int:
    EngineProcess(supervision)  # lives on by its messages
    return await supervision.ended()


if __name__ == "__main__":
    supervised(_main)
