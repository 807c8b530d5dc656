"""Control messages: whole, in order, with their open files, whatever the socket takes at a time."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from mnserve.errors import LoadFailedError, UnavailableError
from mnserve.processes.calls import Answerer, Arguments, Caller
from mnserve.processes.control import ControlChannel, Message


async def test_large_messages_and_open_files_arrive_in_order() -> None:
    ours, theirs = socket.socketpair()
    got: list[tuple[int, str]] = []
    ended = asyncio.Event()

    def take(message: Message, fds: list[int]) -> None:
        texts = []
        for fd in fds:
            with os.fdopen(fd) as file:
                texts.append(file.read())
        got.append((message["number"], "".join(texts)))

    receiver = ControlChannel(theirs, take, ended.set)
    sender = ControlChannel(ours, take, lambda: None)
    for number in range(6):
        reading, writing = os.pipe()
        os.write(writing, b"%d" % number)
        os.close(writing)
        sender.send("some", (reading,), number=number, padding="x" * 300_000)  # more than the socket takes
        os.close(reading)
    async with asyncio.timeout(10):
        while len(got) < 6:
            await asyncio.sleep(0.001)
    assert got == [(number, str(number)) for number in range(6)]
    sender.close()
    async with asyncio.timeout(10):
        await ended.wait()
    assert receiver.closed


async def test_what_is_no_message_ends_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = socket.socketpair()
    ended = asyncio.Event()
    ControlChannel(theirs, lambda message, fds: None, ended.set)
    ours.send(b"\xff" * 8)
    async with asyncio.timeout(10):
        await ended.wait()
    ours.close()
    assert "is damaged" in caplog.text


async def test_a_message_whose_open_files_had_no_room_ends_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = socket.socketpair()
    ended, got = asyncio.Event(), list[Message]()
    ControlChannel(theirs, lambda message, fds: got.append(message), ended.set)
    sender = ControlChannel(ours, lambda message, fds: None, lambda: None)
    sender.send("link", fds=(), text="a")
    text = b'{"kind":"link","fds":2}'
    ours.send(len(text).to_bytes(4, "little") + text)
    async with asyncio.timeout(10):
        await ended.wait()
    sender.close()
    assert [message.get("text") for message in got] == ["a"]
    assert "ulimit -n" in caplog.text


async def test_calls_are_answered_side_by_side_and_errors_keep_their_class() -> None:
    left: list[Any] = []

    async def method(name: str, arguments: Arguments) -> Any:
        if name == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                left.append(arguments["value"])
        if name == "fail":
            raise LoadFailedError("model 'm' cannot be loaded")
        return arguments["value"]

    ours, theirs = socket.socketpair()

    def take(message: Message) -> None:
        assert answerer.take(message)

    there = ControlChannel(theirs, lambda message, fds: take(message), lambda: None)
    here = ControlChannel(ours, lambda message, fds: caller.reply(message), lambda: None)
    answerer, caller = Answerer(method, there.send), Caller(here.send)
    waiting = asyncio.ensure_future(caller.call("wait", {"value": 1}))
    leaving = asyncio.ensure_future(caller.call("wait", {"value": 2}))
    assert await caller.call("give", {"value": [1, None]}) == [1, None]
    with pytest.raises(LoadFailedError, match="model 'm'"):
        await caller.call("fail", {})
    leaving.cancel()
    async with asyncio.timeout(10):
        while not left:
            await asyncio.sleep(0)
    assert left == [2]
    caller.end(UnavailableError("it has ended"))
    for call in (waiting, caller.call("give", {})):
        with pytest.raises(UnavailableError, match="it has ended"):
            await call
    here.close()
    there.close()
    for task in list(answerer._tasks.values()):
        task.cancel()
