"""Sending of answers: small ones in their record, larger ones in shared memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from mnserve.channel.allocator import NoRoomError
from mnserve.channel.arena import Arena
from mnserve.channel.link import Link
from mnserve.channel.records import ANSWER_LAYOUT, CACHED, INLINE, INLINE_PAYLOAD, Answer, pack_answer, pack_layout
from mnserve.codec.packed_tensors import PackedTensors
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.engine_links.layouts import ToldLayouts, answer_layout_json, parse_answer_layout
from mnserve.errors import AnswerTooLargeError
from mnserve.execution.results import InferenceResult

Array: TypeAlias = np.ndarray[Any, Any]

FEW_STRINGS: Final = 256
"""Strings that are put one behind the other on the event loop."""


class AnswerSender:
    """Sends the answers of one link.

    Args:
        link: The link.
        arena: Memory that the answers are written to.
        on_error: Called with a ticket and an error, where an answer cannot be sent.
    """

    def __init__(self, link: Link, arena: Arena, on_error: Callable[[int, BaseException], None]) -> None:
        self._link = link
        self._arena = arena
        self._on_error = on_error
        self._layouts: ToldLayouts[PackedTensors] = ToldLayouts()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, ticket: int, result: InferenceResult) -> None:
        """Sends an answer: at once if it is small, or after its copy in a thread."""
        try:
            number, tensors = self._layout(result.arrays)
            nbytes = tensors.nbytes
            if nbytes is None:
                if tensors.elements > FEW_STRINGS:
                    self._send_later(ticket, result, tensors)
                    return
                payload = tensors.pack(result.arrays)
                if len(payload) > INLINE_PAYLOAD:
                    self._send_later(ticket, result, tensors)
                    return
                self._send_inline(ticket, number, result, payload)
            elif nbytes <= INLINE_PAYLOAD:
                self._send_inline(ticket, number, result, tensors.pack(result.arrays))
            elif nbytes <= INLINE_BYTES:
                try:
                    place = self._arena.allocate(nbytes)
                except NoRoomError:
                    self._send_later(ticket, result, tensors)
                    return
                tensors.write(result.arrays, self._arena.view, place)
                self._link.send(pack_answer(_answer(ticket, number, result, 0, place, nbytes)))
            else:
                self._send_later(ticket, result, tensors)
        except Exception as error:  # noqa: BLE001 (goes to the caller)
            self._on_error(ticket, error)

    def close(self) -> None:
        """Drops the answers that are not sent yet."""
        for task in self._tasks:
            task.cancel()

    def _send_later(self, ticket: int, result: InferenceResult, tensors: PackedTensors) -> None:
        task = asyncio.get_running_loop().create_task(self._place_and_send(ticket, result, tensors))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _place_and_send(self, ticket: int, result: InferenceResult, tensors: PackedTensors) -> None:
        try:
            payload = await asyncio.to_thread(tensors.pack, result.arrays) if tensors.nbytes is None else None
            nbytes = tensors.nbytes if payload is None else len(payload)
            assert nbytes is not None
            place = await self._arena.wait_for_room(nbytes)
            view = self._arena.view
            if payload is not None:
                await asyncio.to_thread(_copy, payload, view, place)
            elif nbytes > INLINE_BYTES:
                await asyncio.to_thread(tensors.write, result.arrays, view, place)
            else:
                tensors.write(result.arrays, view, place)
            number, _ = self._layout(result.arrays)
            self._link.send(pack_answer(_answer(ticket, number, result, 0, place, nbytes)))
        except NoRoomError as error:
            self._on_error(
                ticket,
                AnswerTooLargeError(
                    f"the answer has {error.nbytes} bytes, more than the {error.capacity} that an engine process "
                    "passes on at a time; ask for fewer rows or outputs"
                ),
            )
        except Exception as error:  # noqa: BLE001 (goes to the caller)
            if not self._link.closed:
                self._on_error(ticket, error)

    def _send_inline(self, ticket: int, number: int, result: InferenceResult, payload: bytes) -> None:
        self._link.send(pack_answer(_answer(ticket, number, result, INLINE, 0, len(payload)), payload))

    def _layout(self, arrays: Sequence[Array]) -> tuple[int, PackedTensors]:
        """Finds the layout of an answer, or tells the front end a new one."""
        key: Hashable = tuple([(array.dtype, array.shape) for array in arrays])
        known = self._layouts.find(key)
        if known is None:
            text = answer_layout_json(arrays)
            layout = parse_answer_layout(text)
            number = self._layouts.add(key, layout)
            self._link.send(pack_layout(ANSWER_LAYOUT, number, text))
            known = (number, layout)
        return known


def _answer(ticket: int, layout: int, result: InferenceResult, flags: int, place: int, nbytes: int) -> Answer:
    times = result.times
    return Answer(
        ticket,
        layout,
        flags | CACHED if result.kept else flags,
        result.queue_ns,
        times.input_ns,
        times.infer_ns,
        times.output_ns,
        result.lookup_ns,
        place,
        nbytes,
    )


def _copy(payload: bytes, view: memoryview, place: int) -> None:
    view[place : place + len(payload)] = payload
