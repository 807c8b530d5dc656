"""Two ends of a link: order, full sockets, and every way in which it ends."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from mnserve.channel import link as link_module
from mnserve.channel import records
from mnserve.channel.link import READ_BYTES, Link
from mnserve.channel.records import pack_layout, pack_number


class End:
    """One end, with what came and why it ended."""

    def __init__(self, sock: socket.socket) -> None:
        self.numbers: list[int] = []
        self.ends: list[str] = []
        self.came = asyncio.Event()
        self.fault: Exception | None = None
        self.link = Link(sock, self._take, self._closed)

    def _take(self, kind: int, buffer: bytes, start: int, _end: int) -> None:
        if self.fault is not None:
            raise self.fault
        unpack = records.unpack_layout if kind == records.LAYOUT else records.unpack_number
        self.numbers.append(unpack(buffer, start)[0])
        self.came.set()

    def _closed(self, reason: str) -> None:
        self.ends.append(reason)
        self.came.set()

    async def until_closed(self) -> str:
        async with asyncio.timeout(5):
            while not self.ends:
                self.came.clear()
                await self.came.wait()
        (reason,) = self.ends
        return reason

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.numbers) < count:
                self.came.clear()
                await self.came.wait()


def ends() -> tuple[End, End]:
    a, b = socket.socketpair()
    return End(a), End(b)


async def test_records_of_both_sides_arrive_in_order_also_through_full_sockets() -> None:
    a, b = ends()
    text = b"x" * READ_BYTES
    for number in range(60):
        a.link.send(pack_layout(records.LAYOUT, number, text[: number * 7919 % READ_BYTES]))
        b.link.send(pack_number(records.FREED, number))
    await a.until(60)
    await b.until(60)
    assert a.numbers == b.numbers == list(range(60))
    a.link.close()
    assert await b.until_closed() == "the other side has ended"


async def test_one_turn_of_the_loop_sends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = ends()
    sizes: list[int] = []
    send_some = a.link._send_some
    monkeypatch.setattr(a.link, "_send_some", lambda: sizes.append(len(a.link._out)) or send_some())  # type: ignore[func-returns-value]
    for number in range(10):
        a.link.send(pack_number(records.CANCEL, number))
    await b.until(10)
    assert sizes == [10]
    a.link.close()
    await b.until_closed()


async def test_a_closed_link_sends_what_it_took_and_nothing_more() -> None:
    a, b = ends()
    a.link.send(pack_number(records.CANCEL, 1))
    a.link.close("enough")
    a.link.close("again")
    a.link.send(pack_number(records.CANCEL, 2))
    assert (a.ends, a.link.closed) == (["enough"], True)
    await b.until_closed()
    assert b.numbers == [1]


async def test_damaged_records_end_the_link(caplog: pytest.LogCaptureFixture) -> None:
    a, b = ends()
    a.link.send(pack_number(records.CANCEL, 1) + b"\0" * 9)
    assert "damaged" in await b.until_closed()
    assert b.numbers == [1]
    assert "a link between processes ended" in caplog.text
    await a.until_closed()


async def test_a_fault_of_ours_ends_the_link_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    a, b = ends()
    b.fault = ZeroDivisionError("1/0")
    a.link.send(pack_number(records.CANCEL, 1))
    assert await b.until_closed() == "this side has a fault (ZeroDivisionError: 1/0)"
    assert any(record.exc_info for record in caplog.records if record.levelno == logging.ERROR)
    await a.until_closed()


async def test_a_peer_that_ends_is_noticed_while_sending() -> None:
    a, b = socket.socketpair()
    end = End(a)
    end.link.send(pack_layout(records.LAYOUT, 1, b"x" * 2**22))
    await asyncio.sleep(0)
    b.close()
    assert "failed" in await end.until_closed() or "ended" in end.ends[0]


async def test_records_of_a_crowd_leave_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "_GATHER_SECONDS", 60.0)
    sock, other = socket.socketpair()
    other.setblocking(False)
    end = End(sock)
    end.link.gather = 3

    async def send(number: int) -> None:
        end.link.send(pack_number(records.CANCEL, number))
        for _ in range(5):
            await asyncio.sleep(0)

    for number in range(2):
        await send(number)
        with pytest.raises(BlockingIOError):
            other.recv(1)
    await send(2)
    size = len(pack_number(records.CANCEL, 0))
    assert len(other.recv(READ_BYTES)) == 3 * size
    await send(3)
    end.link.close()  # what waits leaves with it
    assert len(other.recv(READ_BYTES)) == size
    other.close()


async def test_a_record_without_a_crowd_leaves_after_a_moment() -> None:
    a, b = ends()
    a.link.gather = 3
    a.link.send(pack_number(records.CANCEL, 7))
    await b.until(1)
    assert b.numbers == [7]
    a.link.close()
    b.link.close()
