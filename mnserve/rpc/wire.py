"""Count of the fields of a message on the wire, before protobuf parses it.

Wire format: a message is a row of fields, each a tag (varint: number * 8 + kind) and a value. Kind 0 is a varint, 1
eight bytes, 2 a length and as many bytes, 5 four bytes. Kinds 3 and 4 open and close a group. Source: protobuf's guide
"Encoding".
"""

from __future__ import annotations


def has_more_fields(data: bytes, limit: int) -> bool:
    """Counts the fields at the top level of a message, up to ``limit`` of them.

    Returns:
        True if there are more; False for bytes that are no message, which the parser refuses.
    """
    position = 0
    try:
        for _ in range(limit):
            if position >= len(data):
                return False
            tag, position = _varint(data, position)
            kind = tag & 7
            if kind == 0:
                _, position = _varint(data, position)
            elif kind == 1:
                position += 8
            elif kind == 2:
                length, position = _varint(data, position)
                position += length
            elif kind == 5:
                position += 4
            elif kind > 5:
                return False
    except IndexError:
        return False
    return position < len(data)


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
