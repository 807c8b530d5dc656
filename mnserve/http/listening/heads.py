"""Size of the head of a request, counted while it arrives."""

from __future__ import annotations

import time


class HeadBytes:
    """Counts the bytes of heads, and of what stands behind bodies.

    The parser tells a line or a header once it is whole, and keeps it until then. So pieces of data are counted too,
    where they hold nothing but the head. A piece that ends one request and begins the next holds at most what one read
    brings, and is not.

    Args:
        most: Most bytes of a head.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.arriving = False
        """True from the first byte of a head to its last."""
        self.began = time.monotonic()
        """Monotonic time at which the head began."""
        self._fields = self._pieces = self._between = 0
        self._begun, self._alone, self._progress = 0, False, False

    @property
    def is_too_large(self) -> bool:
        """True once there are more bytes than allowed."""
        return max(self._fields, self._pieces, self._between) > self._most

    def before_piece(self, in_body: bool) -> None:
        """Notes that a piece of data comes.

        Args:
            in_body: The body of a request is still arriving.
        """
        self._begun, self._progress = 0, False
        self._alone = not in_body and not self.arriving

    def after_piece(self, size: int, in_body: bool) -> None:
        """Counts a piece of data that was parsed.

        Args:
            size: Bytes of the piece.
            in_body: The body of a request is still arriving.
        """
        if self.arriving and (not self._begun or (self._begun == 1 and self._alone)):
            self._pieces += size
        self._between = self._between + size if in_body and not self._progress and not self._begun else 0

    def begin(self) -> None:
        """Notes that a head begins."""
        self.arriving, self.began = True, time.monotonic()
        self._fields = self._pieces = 0
        self._begun += 1

    def field(self, size: int) -> None:
        """Counts a line or a header that is whole.

        Raises:
            OverflowError: The head is too large; the parser stops.
        """
        self._fields += size
        if self._fields > self._most:
            raise OverflowError

    def end(self) -> None:
        """Notes that the head is whole; headers behind the body count anew."""
        self.arriving = False
        self._fields = self._pieces = 0

    def body(self) -> None:
        """Notes that some of a body has arrived."""
        self._progress = True
