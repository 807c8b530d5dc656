"""Tensors of requests on their way out: small ones in their record, larger ones in shared memory."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from functools import partial
from typing import Final, NamedTuple

from mnserve.channel.allocator import NoRoomError
from mnserve.channel.arena import Arena
from mnserve.channel.link import Link
from mnserve.channel.records import INLINE_PAYLOAD, LAYOUT, pack_layout
from mnserve.codec.decoding import InferenceWork
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.engine_links.layouts import SubmitLayout, ToldLayouts, parse_submit_layout, submit_layout_json
from mnserve.errors import InvalidRequestError, QueueFullError

NO_PLACE: Final = -1
"""Place of tensors that travel in their record."""
_STRING_BYTES: Final = 2**14
"""Memory of inputs up to which their strings are put one behind the other on the event loop."""


class Placed(NamedTuple):
    """Tensors of a request, ready to be sent.

    Attributes:
        payload: What travels in the record; empty for tensors in shared memory.
        place: Place in shared memory, or NO_PLACE.
        nbytes: Size of all in bytes.
    """

    payload: bytes
    place: int
    nbytes: int


class Placing:
    """Lays out the tensors of requests for one link.

    Args:
        link: The link, which layouts are told over.
        arena: Memory that the tensors are written to.
    """

    def __init__(self, link: Link, arena: Arena) -> None:
        self._link = link
        self._arena = arena
        self._layouts: ToldLayouts[SubmitLayout] = ToldLayouts()

    def layout(self, work: InferenceWork) -> tuple[int, SubmitLayout]:
        """Finds the layout of a request with its number, or tells a new one; good until the next turn of the loop."""
        parts: list[Hashable] = [work.rows, work.outputs, work.alone]
        for name, array in work.feeds.items():
            parts += (name, array.dtype, array.shape)
        key = tuple(parts)
        known = self._layouts.find(key)
        if known is None:
            text = submit_layout_json(work.feeds, work.outputs, work.rows, work.alone)
            layout = parse_submit_layout(text)
            number = self._layouts.add(key, layout)
            self._link.send(pack_layout(LAYOUT, number, text))
            known = (number, layout)
        return known

    def place(self, work: InferenceWork, layout: SubmitLayout, *, waits: bool) -> Placed | None:
        """Lays small tensors out.

        Args:
            work: The request.
            layout: Its layout.
            waits: It may wait for room.

        Returns:
            Where they are; None where this takes long, or there is no room, and it is left to :meth:`place_later`.

        Raises:
            QueueFullError: There is no room.
            InvalidRequestError: There never is.
        """
        tensors = layout.tensors
        nbytes = tensors.nbytes
        if nbytes is None:
            if work.nbytes > _STRING_BYTES:
                return None
            payload = tensors.pack(work.feeds.values())
            return Placed(payload, NO_PLACE, len(payload)) if len(payload) <= INLINE_PAYLOAD else None
        if nbytes <= INLINE_PAYLOAD:
            return Placed(tensors.pack(work.feeds.values()), NO_PLACE, nbytes)
        if nbytes > INLINE_BYTES:
            return None
        try:
            place = self._arena.allocate(nbytes)
        except NoRoomError:
            if waits:
                return None
            raise self._refusal(nbytes) from None
        tensors.write(work.feeds.values(), self._arena.view, place)
        return Placed(b"", place, nbytes)

    async def place_later(self, work: InferenceWork, layout: SubmitLayout, *, waits: bool) -> Placed:
        """Lays any tensors out, large ones in a thread.

        Raises:
            QueueFullError: There is no room.
            InvalidRequestError: There never is.
        """
        tensors, arrays = layout.tensors, list(work.feeds.values())
        payload = await asyncio.to_thread(tensors.pack, arrays) if tensors.nbytes is None else None
        nbytes = tensors.nbytes if payload is None else len(payload)
        assert nbytes is not None
        if payload is not None and nbytes <= INLINE_PAYLOAD:
            return Placed(payload, NO_PLACE, nbytes)
        try:
            place = await self._arena.wait_for_room(nbytes) if waits else self._arena.allocate(nbytes)
        except NoRoomError:
            raise self._refusal(nbytes) from None
        if payload is None:
            write = partial(tensors.write, arrays, self._arena.view, place)
        else:
            write = partial(_copy, payload, self._arena.view, place)
        writing = asyncio.ensure_future(asyncio.to_thread(write))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            writing.add_done_callback(lambda _: self._arena.free(place))  # it goes on writing there
            raise
        return Placed(b"", place, nbytes)

    def _refusal(self, nbytes: int) -> QueueFullError | InvalidRequestError:
        capacity = self._arena.capacity
        if nbytes > capacity:
            return InvalidRequestError(
                f"the request has {nbytes} bytes, more than the {capacity} that a front end passes on at a time; send "
                "fewer rows at a time"
            )
        return QueueFullError(
            f"requests on their way to the engines take {self._arena.used} of {capacity} bytes, and {nbytes} more have "
            "no room; try again later"
        )


def _copy(payload: bytes, view: memoryview, place: int) -> None:
    view[place : place + len(payload)] = payload
