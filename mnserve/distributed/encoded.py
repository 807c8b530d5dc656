"""Bytes that Ray Serve takes for a message of protobuf."""

from __future__ import annotations


class Encoded(bytes):
    """A message that is encoded already."""

    def SerializeToString(self) -> bytes:
        """See :meth:`google.protobuf.message.Message.SerializeToString`."""
        return bytes(self)
