"""Front ends listen one after the other, and hear where new connections are to go."""

from __future__ import annotations

import asyncio
import socket

from mnserve.access.connection_counts import ConnectionCounts
from mnserve.processes.listeners import SILENT_SECONDS, Listeners


class Place:
    """A front end; notes what it is told."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told: list[object] = []

    def begin_to_listen(self) -> None:
        self.told.append("listen")

    def steer(self, place: int | None) -> None:
        self.told.append(place)


def test_one_after_the_other_listens_also_where_one_dies_meanwhile() -> None:
    listeners, places = Listeners(), [Place(number) for number in range(3)]
    for place in places:
        listeners.add(place)
    assert [place.told for place in places] == [["listen"], [], []]
    listeners.lost(places[0])
    assert [place.told for place in places] == [["listen"], ["listen"], []]
    listeners.listens(places[1])
    listeners.listens(places[2])
    listeners.add(places[0])
    listeners.listens(places[0])
    assert [place.told for place in places] == [["listen"] * 2, ["listen"], ["listen"]]


def test_new_connections_are_shared_anew_when_numbers_change() -> None:
    listeners, places = Listeners(), [Place(number) for number in range(2)]
    for place in places:
        listeners.add(place)
        listeners.listens(place)
    listeners.report(places[0], 1)
    listeners.report(places[0], 1)  # nothing new to tell
    listeners.report(places[1], 1)
    assert places[0].told == ["listen", (0.25, 0.75), None]
    listeners.report(places[1], 0)
    listeners.lost(places[0])
    assert places[0].told == ["listen", (0.25, 0.75), None, (0.25, 0.75)]
    assert places[1].told == ["listen", None]


def test_a_front_end_that_is_silent_gets_no_larger_share() -> None:
    now = 0.0
    listeners, places = Listeners(lambda: now), [Place(number) for number in range(2)]
    for place in places:
        listeners.add(place)
        listeners.listens(place)
    listeners.report(places[0], 1)
    assert places[0].told == ["listen", (0.25, 0.75)]
    now = SILENT_SECONDS + 1
    listeners.report(places[0], 1)
    assert places[0].told == ["listen", (0.25, 0.75), None]
    listeners.report(places[1], 0)
    assert places[0].told == ["listen", (0.25, 0.75), None, (0.25, 0.75)]


async def test_connections_are_told_as_they_come_and_go() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        told: asyncio.Queue[int] = asyncio.Queue()
        counts = ConnectionCounts(port, told.put_nowait)

        async def until(count: int) -> None:
            while await asyncio.wait_for(told.get(), 5) != count:
                pass

        await until(0)
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = listener.accept()
            await until(1)
        accepted.close()
        await until(0)
        counts.close()
