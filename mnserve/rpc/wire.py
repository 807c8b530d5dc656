"""Count of the elements of a message on the wire, before protobuf parses it.

protobuf parses in one go, in which nothing else of the interpreter runs, and makes an object of every element. So a
message is walked first, through its nested messages too, until it ends or has too many of something. What a field holds
is skipped, so a tensor of raw bytes costs as much as a name. Only the content of tensors may be large.

Wire format: a message is a row of fields, each a tag (varint: number * 8 + kind) and a value. Kind 0 is a varint, 1
eight bytes, 2 a length and as many bytes, 5 four bytes. Kinds 3 and 4 open and close a group, which no message of ours
has. Source: protobuf's guide "Encoding".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_CONTINUED: Final = bytes(range(0x80, 0x100))
"""Bytes that do not end a varint."""
_CHUNK: Final = 2**20
_VARINTS: Final = frozenset(
    {
        FieldDescriptor.TYPE_BOOL,
        FieldDescriptor.TYPE_ENUM,
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_SINT32,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
    }
)
_NUMBERS: Final = _VARINTS | {
    FieldDescriptor.TYPE_DOUBLE,
    FieldDescriptor.TYPE_FIXED32,
    FieldDescriptor.TYPE_FIXED64,
    FieldDescriptor.TYPE_FLOAT,
    FieldDescriptor.TYPE_SFIXED32,
    FieldDescriptor.TYPE_SFIXED64,
}


@dataclass(frozen=True, kw_only=True)
class ElementLimits:
    """Most elements of a message, all of its nested messages together.

    Attributes:
        fields: Fields, other than values. Each may become an object of some 90 bytes, from as few as two on the wire.
        values: Fields of messages that hold nothing but lists of values, as typed contents do: a string, or a number
            that is not packed. Each takes 16 bytes, and what it holds.
        numbers: Varints that are packed into a field. Each takes up to eight bytes, from as few as one on the wire.
        texts: Bytes of names, ids, parameters and whatever else is no content of a tensor. No queue counts them.
    """

    fields: int
    values: int
    numbers: int
    texts: int


@dataclass(frozen=True, eq=False)
class WireShape:
    """Fields of a kind of message that need more than a count.

    Attributes:
        nested: Tags of the fields with messages, and the shapes of these.
        packed: Tags of the fields with packed varints.
        contents: Tags of the fields with bytes or packed numbers, ``packed`` among them.
        holds_values: The message has nothing but lists of values.
    """

    nested: Mapping[int, WireShape]
    packed: frozenset[int]
    contents: frozenset[int]
    holds_values: bool

    @classmethod
    def of(cls, message: Descriptor) -> WireShape:
        """Reads the shape off a description; a message must not contain messages of its own kind."""
        return cls(
            {
                field.number << 3 | 2: cls.of(field.message_type)
                for field in message.fields
                if field.type == FieldDescriptor.TYPE_MESSAGE
            },
            frozenset(
                field.number << 3 | 2 for field in message.fields if field.is_repeated and field.type in _VARINTS
            ),
            frozenset(
                field.number << 3 | 2
                for field in message.fields
                if field.type == FieldDescriptor.TYPE_BYTES or (field.is_repeated and field.type in _NUMBERS)
            ),
            all(field.is_repeated and field.type != FieldDescriptor.TYPE_MESSAGE for field in message.fields),
        )


class NotAMessageError(Exception):
    """The bytes are no message; the parser refuses them too."""


def first_excess(data: bytes, shape: WireShape, limits: ElementLimits) -> str | None:
    """Walks through a message until it has more elements than it may.

    Fields are taken in the order of the parser, so that the walk ends before anything that the parser would reach.

    Returns:
        Name of the limit that is exceeded, one of the attributes of ``limits``; None where the message keeps them all.

    Raises:
        NotAMessageError: The bytes are no message. Not every such fault is found here.
    """
    position, end, groups = 0, len(data), 0
    fields, values, numbers, texts = limits.fields, limits.values, limits.numbers, limits.texts
    outer: list[tuple[int, WireShape]] = []
    try:
        while True:
            while position >= end:
                if not outer:
                    return None
                end, shape = outer.pop()
                groups = 0
            if shape.holds_values:
                values -= 1
                if values < 0:
                    return "values"
            else:
                fields -= 1
                if fields < 0:
                    return "fields"
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = _varint(data, position - 1)
            kind = tag & 7
            if kind == 2:
                length = data[position]
                position += 1
                if length > 0x7F:
                    length, position = _varint(data, position - 1)
                stop = position + length
                if stop > end:
                    raise NotAMessageError
                if tag in shape.nested and not groups:
                    outer.append((end, shape))
                    end, shape = stop, shape.nested[tag]
                    continue
                if groups or tag not in shape.contents:
                    texts -= length
                    if texts < 0:
                        return "texts"
                elif tag in shape.packed:
                    numbers -= _count_varints(data, position, stop, numbers)
                    if numbers < 0:
                        return "numbers"
                position = stop
            elif kind == 0:
                _, position = _varint(data, position)
            elif kind == 1:
                position += 8
            elif kind == 5:
                position += 4
            elif kind == 3:
                groups += 1
            elif kind == 4:
                groups -= 1
            else:
                raise NotAMessageError
            if position > end or groups < 0:
                raise NotAMessageError
    except IndexError:
        raise NotAMessageError from None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Reads the number at ``position``, seven bits a byte with the lowest first, and finds its end."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:
            return value, position
        shift += 7


def _count_varints(data: bytes, start: int, stop: int, enough: int) -> int:
    """Counts the numbers between two positions; the count may end once there are more than ``enough``."""
    count = 0
    for begin in range(start, stop, _CHUNK):
        count += len(data[begin : min(begin + _CHUNK, stop)].translate(None, _CONTINUED))
        if count > enough:
            break
    return count
