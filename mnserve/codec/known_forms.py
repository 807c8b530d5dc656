"""Forms of requests that came before: an equal one goes from bytes to views of its tensors without being parsed.

Most callers send messages that differ in their tensors and their id alone. Protobuf parses two messages in a row as one
merged message. So where all of a message but its last fields, the raw contents, equals one that was checked, and those
have the same lengths, the whole has the same meaning.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from mnserve.codec.decoding import InferenceWork, layout_key, refuse_non_finite
from mnserve.codec.request_layout import RequestLayout
from mnserve.codec.signature import RequestSignature
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.codec.wire_format import varint
from mnserve.protocol import service_pb2 as pb

MAX_FORMS: Final = 1024
"""Forms that are remembered; all are forgotten once there are more."""
MAX_BYTES: Final = INLINE_BYTES
"""Largest message: a larger one is decoded in a thread, and its parsing does not count."""
_MAX_HEAD: Final = 4096
"""Most bytes of a message before its tensors."""
_MAX_TRIED: Final = 16
"""Most lengths of heads that are tried for a message of one size: callers can make up as many as there are forms."""
_MAX_ID_PLACES: Final = 64
"""Most places of ids that are tried for a message."""
_RAW_TAG: Final = b"\x3a"
"""Tag of ``raw_input_contents``, field 7."""
_ID_TAG: Final = 0x1A
"""Tag of ``id``, field 3."""
_MAX_ID: Final = 127
"""Longest id whose length takes one byte."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class RequestForm:
    """All of a request but its id and its tensors.

    Attributes:
        model: Name of the model.
        version: Version that the request names; empty for none.
        signature: Signature that the layout was checked against.
        layout: Layout of its tensors.
        cuts: For each input of the layout, the place of its contents, counted back from the end of the message.
        marks: Tags and lengths between the contents: their place from the end, and their bytes.
        tail: Bytes of the contents with their marks.
    """

    model: str
    version: str
    signature: RequestSignature
    layout: RequestLayout
    cuts: tuple[tuple[int, int], ...]
    marks: tuple[tuple[int, int, bytes], ...]
    tail: int


class KnownRequest(NamedTuple):
    """A request of a known form.

    Attributes:
        form: The form.
        id: Id of the request.
        data: The message.
    """

    form: RequestForm
    id: str
    data: bytes

    def decode(self) -> InferenceWork:
        """Takes the tensors out, as views of the message.

        Raises:
            InvalidRequestError: A value is out of its range, or not finite where the model takes none of those.
        """
        form, data = self.form, self.data
        layout, signature, end = form.layout, form.signature, len(self.data)
        feeds = {}
        for rule, shape, (start, stop) in zip(layout.rules, layout.shapes, form.cuts, strict=True):
            dtype = rule.datatype.dtype
            array = np.frombuffer(data, dtype, (start - stop) // dtype.itemsize, end - start).reshape(shape)
            if rule.datatype.floating and not signature.allow_non_finite:
                refuse_non_finite(array, rule, signature)
            feeds[rule.name] = array
        if signature.input_rules.value_ranges:
            signature.input_rules.check_values(signature.model, feeds)
        return InferenceWork(feeds=feeds, rows=layout.rows, outputs=layout.outputs, alone=layout.alone)


class RequestForms:
    """Forms of the requests that a server has answered."""

    def __init__(self) -> None:
        self._forms: dict[Hashable, RequestForm] = {}
        self._heads: dict[int, tuple[int, ...]] = {}
        """Length of a message without its id -> lengths of the heads of such messages."""
        self._id_places: tuple[int, ...] = ()

    def find(self, data: bytes) -> KnownRequest | None:
        """Finds the form of a message; None for one that has to be parsed."""
        size = len(data)
        for head in self._heads.get(size, ()):
            form = self._forms.get(data[:head])
            if form is not None and _fits(form, data, head):
                return KnownRequest(form, "", data)
        for place in self._id_places:
            if size < place + 2 or data[place] != _ID_TAG or (length := data[place + 1]) > _MAX_ID:
                continue
            behind = place + 2 + length
            for rest in self._heads.get(size - 2 - length, ()):
                head = rest + 2 + length
                form = self._forms.get((place, data[:place], data[behind:head]))
                if form is not None and _fits(form, data, head):
                    try:
                        return KnownRequest(form, data[place + 2 : behind].decode(), data)
                    except UnicodeDecodeError:
                        return None
        return None

    def learn(self, data: bytes, request: pb.ModelInferRequest, signature: RequestSignature) -> None:
        """Remembers the form of a request that was answered.

        Args:
            data: Its message.
            request: The same, parsed.
            signature: Signature of the model that answered.
        """
        key = layout_key(request, signature)
        layout = None if key is None else signature.layouts.get(key)
        if layout is None or not request.raw_input_contents or not _has_fixed_sizes(layout):
            return
        cuts, marks, tail = _places(request, layout)
        head = len(data) - tail
        if not 0 < head <= _MAX_HEAD:
            return
        form = RequestForm(
            model=request.model_name,
            version=request.model_version,
            signature=signature,
            layout=layout,
            cuts=cuts,
            marks=marks,
            tail=tail,
        )
        if not _fits(form, data, head):
            return
        place = _id_place(data[:head], request)
        if place is None:
            return
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
            self._heads.clear()
            self._id_places = ()
        if request.id:
            behind = place + 2 + len(request.id.encode())
            self._forms[place, data[:place], data[behind:head]] = form
            self._add_head(len(data) - (behind - place), head - (behind - place))
            self._id_places = _with(self._id_places, place, _MAX_ID_PLACES)
        else:
            self._forms[data[:head]] = form
            self._add_head(len(data), head)

    def _add_head(self, size: int, head: int) -> None:
        self._heads[size] = _with(self._heads.get(size, ()), head, _MAX_TRIED)


def _with(numbers: tuple[int, ...], number: int, most: int) -> tuple[int, ...]:
    """Adds a number to those that came last."""
    return numbers if number in numbers else (*numbers, number)[-most:]


def _has_fixed_sizes(layout: RequestLayout) -> bool:
    """Finds if all tensors are raw numbers whose bytes need no check: those of BOOL do, and of strings vary."""
    return not layout.large and all(
        nbytes and raw is not None and rule.datatype.name != "BOOL"
        for nbytes, raw, rule in zip(layout.nbytes, layout.raw_positions, layout.rules, strict=True)
    )


def _places(
    request: pb.ModelInferRequest, layout: RequestLayout
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int, bytes], ...], int]:
    """Computes where the contents of a message are, and what stands before each, if they are its last fields.

    Returns:
        For each input of the layout its start and stop, counted back from the end; the tags with their lengths; and the
        bytes of all.
    """
    sizes = [len(raw) for raw in request.raw_input_contents]
    starts: list[int] = []
    marks: list[tuple[int, int, bytes]] = []
    left = 0
    for size in reversed(sizes):
        start = left + size
        starts.insert(0, start)
        mark = _RAW_TAG + varint(size)
        marks.append((start + len(mark), start, mark))
        left = start + len(mark)
    cuts = []
    for position, nbytes in zip(layout.positions, layout.nbytes, strict=True):
        raw = layout.raw_positions[position]
        assert raw is not None
        assert nbytes == sizes[raw]
        cuts.append((starts[raw], starts[raw] - sizes[raw]))
    return tuple(cuts), tuple(marks), left


def _fits(form: RequestForm, data: bytes, head: int) -> bool:
    """Finds if nothing but the contents of a form stands behind the head of a message, which is that of the form."""
    end = len(data)
    return head + form.tail == end and all(data[end - start : end - stop] == mark for start, stop, mark in form.marks)


def _id_place(head: bytes, request: pb.ModelInferRequest) -> int | None:
    """Finds where the id stands in the head of a message, as a field of its own.

    Returns:
        Its place; 0 where there is no id, and None where the head alone does not mean what the whole does.
    """
    try:
        alone = pb.ModelInferRequest.FromString(head)
        if alone.raw_input_contents or alone.id != request.id:
            return None
        text = request.id.encode()
        if not text:
            return 0
        if len(text) > _MAX_ID:
            return None
        field = bytes((_ID_TAG, len(text))) + text
        place = head.find(field)
        before, rest = head[:place], head[:place] + head[place + len(field) :]
        if place < 0 or pb.ModelInferRequest.FromString(before).id or pb.ModelInferRequest.FromString(rest).id:
            return None
    except DecodeError:
        return None
    return place
