"""Places for processes, around processes that are none: what fails at a start, and what a new process is told."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from mnserve.channel.wire_errors import error_fields
from mnserve.errors import StartError
from mnserve.processes import engine_place, fleet, front_end_place, supervisor
from mnserve.processes.common_limits import CommonLimits
from mnserve.processes.control import Message
from mnserve.processes.engine_place import EngineEvents, EnginePlace, StartOrders
from mnserve.processes.engine_shares import EngineShare
from mnserve.processes.fleet import Fleet
from mnserve.processes.front_end_place import FrontEndEvents, FrontEndPlace
from mnserve.processes.listeners import Listeners
from mnserve.processes.restarts import Restarts
from mnserve.processes.supervisor import Supervisor
from mnserve.settings import ServeSettings

Tell = Callable[[Message, list[int]], None]


class Child:
    """Notes what it is told; it ends as it is asked for."""

    started: list[Child]

    def __init__(self, module: str, name: str, tell: Tell, on_death: Callable[[int], None]) -> None:
        self.name, self.tell, self._on_death = name, tell, on_death
        self.alive = self.connected = True
        self.told: list[tuple[str, dict[str, Any]]] = []
        Child.started.append(self)

    def send(self, kind: str, fds: tuple[int, ...] = (), **fields: Any) -> None:
        self.told.append((kind, fields))

    def kill(self, *, expected: bool = True) -> None:
        self.alive = False
        if not expected:
            self.end(-signal.SIGKILL)

    def end(self, code: int) -> None:
        self.alive = False
        asyncio.get_running_loop().call_soon(self._on_death, code)


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    Child.started = []
    monkeypatch.setattr(engine_place, "Child", Child)
    monkeypatch.setattr(front_end_place, "Child", Child)
    return Child.started


def engine(orders: StartOrders, on_up: Callable[[Any], None] = lambda engine: None) -> EnginePlace:
    events = EngineEvents(
        on_up=on_up,
        on_model=lambda engine, message: None,
        on_loaded=lambda engine: None,
        on_lost=lambda engine: None,
    )
    return EnginePlace(0, orders, events, EngineShare())


def front_end(*, awaited: bool) -> FrontEndPlace:
    async def answer(place: FrontEndPlace, method: str, arguments: Any) -> None: ...

    events = FrontEndEvents(
        on_up=lambda front_end: None,
        on_lost=lambda front_end: None,
        on_call=answer,
        on_link_lost=lambda front_end, engine, generation: None,
    )
    return FrontEndPlace(0, {}, CommonLimits(), Listeners(), events, awaited=awaited)


async def until(count: int, started: list[Child]) -> None:
    async with asyncio.timeout(5):
        while len(started) < count:
            await asyncio.sleep(0)


async def test_a_model_that_is_loaded_after_all_is_left_out_no_more(started: list[Child]) -> None:
    place = engine(orders := StartOrders(settings={}))
    started[0].tell({"kind": "loading", "name": "m", "begins": True}, [])
    started[0].end(-signal.SIGFPE)
    await until(2, started)
    (told,) = [fields for kind, fields in started[1].told if kind == "start"]
    assert "SIGFPE" in told["left_out"]["m"]
    for begins in (True, False):  # its files were corrected, and polling has found that
        started[1].tell({"kind": "loading", "name": "m", "begins": begins}, [])
    assert not orders.left_out
    place.close()


async def test_a_kill_from_outside_is_blamed_on_a_load_the_second_time_alone(
    started: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Restarts, "wait", lambda restarts: 0.0)
    place = engine(StartOrders(settings={}))
    left_out = []
    started[0].tell({"kind": "started"}, [])
    for number, loads in enumerate([True, False, True, True]):
        started[number].tell({"kind": "loading", "name": "m", "begins": True}, [])
        if not loads:  # it is loaded, and something else goes on
            started[number].tell({"kind": "loading", "name": "m", "begins": False}, [])
        started[number].end(-signal.SIGKILL)
        await until(number + 2, started)
        left_out += [dict(fields["left_out"]) for kind, fields in started[-1].told if kind == "start"]
    assert left_out[:3] == [{}, {}, {}]
    assert "SIGKILL" in left_out[3]["m"]
    place.close()


async def test_an_engine_process_without_links_is_replaced(
    started: list[Child], caplog: pytest.LogCaptureFixture
) -> None:
    failures = [OSError(24, "Too many open files")]

    def link(place: EnginePlace) -> None:
        if failures:
            raise failures.pop()

    place = engine(StartOrders(settings={}), link)
    await until(2, started)
    assert [child.alive for child in started] == [False, True]
    assert "engine process 0 cannot be linked to the front ends: Too many open files" in caplog.text
    place.close()


async def test_the_start_fails_with_a_front_end_that_it_waits_for(started: list[Child]) -> None:
    place = front_end(awaited=True)
    started[0].tell({"kind": "failed", "error": error_fields(StartError("no"))}, [])
    for waiting in (place.prepared, place.ready):  # whichever the start waits for
        with pytest.raises(StartError, match="no"):
            await waiting
    place.close()


async def test_a_front_end_that_was_added_later_and_fails_is_replaced(started: list[Child]) -> None:
    place = front_end(awaited=False)
    started[0].tell({"kind": "failed", "error": error_fields(StartError("no"))}, [])
    await until(2, started)
    assert [child.alive for child in started] == [False, True]
    place.close()


@pytest.mark.parametrize("engine_lives", [True, False])
async def test_processes_that_lose_their_link_and_live_on_are_linked_again(
    started: list[Child], monkeypatch: pytest.MonkeyPatch, engine_lives: bool
) -> None:
    monkeypatch.setattr(fleet, "_LINK_SECONDS", 0.0)
    server = Fleet(ServeSettings(repository="."), lambda: None)
    server.add_engines([EngineShare()])
    server.add_front_ends(1)
    engine, front_end = started
    engine.tell({"kind": "model", "name": "m", "loaded": True, "faults": [[2, "broken"]], "versions": []}, [])
    before = len(front_end.told), len(engine.told)
    engine.connected = engine_lives
    front_end.tell({"kind": "link_lost", "engine": 0, "generation": 1}, [])
    await asyncio.sleep(0.01)
    told, linked = front_end.told[before[0] :], engine.told[before[1] :]
    assert [kind for kind, _ in told] == ["engine_lost", "link"] * engine_lives
    assert [kind for kind, _ in linked] == ["link"] * engine_lives
    if engine_lives:
        assert told[0][1]["suspects"] == ["m"]
    server.kill()


async def test_a_stop_ends_processes_that_are_stuck(
    started: list[Child], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "_REPLY_SECONDS", 0.01)
    server = Supervisor(ServeSettings(repository="."))
    server._fleet.add_engines([EngineShare()])
    server._fleet.add_front_ends(2)
    for place in server._fleet.places:
        place.close()
    engine, stuck, front_end = started
    draining = asyncio.ensure_future(server._drain(0.0))
    await asyncio.sleep(0)
    while ("call", {"id": 1, "method": "drain", "arguments": {"timeout": 0.0}}) not in front_end.told:
        await asyncio.sleep(0)
    front_end.tell({"kind": "reply", "id": 1, "value": None}, [])
    async with asyncio.timeout(5):
        assert not await draining
    assert [child.alive for child in (engine, stuck, front_end)] == [False, False, True]
    assert "front end 0 is stuck" in caplog.text
    assert "front end 1" not in caplog.text
