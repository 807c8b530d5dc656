"""Life of the serving process: start, announcement, signal, drain."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn, Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mnserve.engines.cpu import available_cpus
from mnserve.errors import MnServeError, SettingsError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.garbage import keep_for_good
from mnserve.models.catalogue import ModelState
from mnserve.processes.front_end_count import first_count, front_ends_work
from mnserve.settings import ServeSettings
from mnserve.starting.addresses import Addresses
from mnserve.text.names import printable
from mnserve.text.terminal import plain

_log = logging.getLogger(__name__)

_SECOND_SIGNAL = 130
"""Exit code after a second signal."""


def serve(settings: ServeSettings) -> int:
    """Serves until a signal comes.

    Returns:
        0 if every admitted request was answered, 1 if requests were given up.

    Raises:
        MnServeError: The server cannot start.
    """
    make_server = _kind_of_server(settings)  # while signals still end the process at once
    try:
        finished = asyncio.run(_serve(make_server, settings))
    except MnServeError as error:
        if EngineThread.any_alive():
            sys.stderr.write(f"mnserve: {printable(str(error))}\n")
            _end_at_once(error.exit_code)
        raise
    if not finished or EngineThread.any_alive():
        _end_at_once(0 if finished else 1)
    return 0


def _end_at_once(code: int) -> NoReturn:
    """Ends the process around an engine that still runs or loads: it would abort when the interpreter is finalized."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _serve(make_server: Callable[[ServeSettings], _AnyServer], settings: ServeSettings) -> bool:
    stop = asyncio.Event()
    _handle_signals(stop)
    server = make_server(settings)
    start = asyncio.ensure_future(server.start())
    signalled = asyncio.ensure_future(stop.wait())
    await asyncio.wait((start, signalled), return_when=asyncio.FIRST_COMPLETED)
    if start.done():
        try:
            addresses = start.result()
            keep_for_good()
            _announce(addresses, server.states, Console(highlight=False, soft_wrap=True))
        except BaseException:
            signalled.cancel()
            raise
        await signalled
        _log.info("stopping: finishing what was admitted")
    else:
        _log.info("stopped before the models were loaded")
        start.cancel()
        await asyncio.wait((start,))
    return await server.stop()


class _AnyServer(Protocol):
    """A server, of one process or of several."""

    @property
    def states(self) -> list[ModelState]: ...

    async def start(self) -> Addresses: ...

    async def stop(self) -> bool: ...


def _kind_of_server(settings: ServeSettings) -> Callable[[ServeSettings], _AnyServer]:
    """Imports the server of as many processes as the settings say, or as make sense here."""
    count, engines = settings.front_ends, settings.engine_processes
    if count < 0:
        count = first_count(available_cpus(), engines)
    if count:
        if not front_ends_work():
            asked = f"--engine-processes is {engines}" if settings.front_ends < 0 else f"--front-ends is {count}"
            raise SettingsError(
                f"{asked}, and this system has no memory files for processes to share; give --front-ends 0, one "
                "process for all"
            )
        from mnserve.processes.supervisor import Supervisor

        return Supervisor
    from mnserve.server import Server  # loads the engine and gRPC, which the supervisor does without

    return Server


def _handle_signals(stop: asyncio.Event) -> None:
    """Handles signals: the first one starts the drain, the second ends the process at once.

    A SIGINT that is ignored stays so: a shell starts its background jobs like that, since Ctrl-C is not meant for them.
    """

    def on_signal() -> None:
        if stop.is_set():
            os._exit(_SECOND_SIGNAL)
        stop.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, on_signal)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGINT, on_signal)


def _announce(addresses: Addresses, states: list[ModelState], console: Console) -> None:
    ready = sum(state.ready for state in states)
    if console.is_terminal:
        console.print(_table(states))
    models = "1 model" if ready == 1 else f"{ready} models"
    where = addresses.grpc if addresses.http is None else f"{addresses.grpc}, {addresses.http}"
    console.print(f"serving {models} on {where}, metrics {addresses.metrics}", markup=False)
    console.file.flush()


def _table(states: list[ModelState]) -> Table:
    table = Table("model", "version", "batch", "inputs", "state")
    for state in states:
        batch = inputs = ""
        if state.served is not None:
            rules = state.served.signature
            batch = str(rules.max_batch_size or "none")
            inputs = ", ".join(f"{rule.name} {rule.datatype.name} {list(rule.dims)}" for rule in rules.inputs)
        version = "" if state.version is None else str(state.version)
        verdict = Text("ready") if state.ready else Text(printable(state.reason), style="red")
        table.add_row(plain(state.name), version, batch, plain(inputs), verdict)
    return table
