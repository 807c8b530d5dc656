"""Numbers of protobuf's wire format."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Encodes a length or a tag: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
