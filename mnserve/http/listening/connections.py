"""Connections of HTTP: none takes up its place for ever, whatever its client does.

uvicorn has no limit of the time and the bytes of a request's head, nor one for clients that do not read their answers.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

import httptools
import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from mnserve.http.listening.heads import HeadBytes
from mnserve.http.listening.limits import ConnectionLimits
from mnserve.http.listening.offers import head_of_body, new_parser

_LINGER_SECONDS: Final = 1.0
_MAX_PIPELINED: Final = 64
"""Most requests of a connection that wait for the answers to those before them."""
_STATUS_LINES: Final = {
    400: b"HTTP/1.1 400 Bad Request\r\n",
    408: b"HTTP/1.1 408 Request Timeout\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
}


class Connection(HttpToolsProtocol):
    """One connection.

    Args:
        config: Settings of uvicorn.
        state: What the connections of a listener share.
        limits: Limits of the connections.
    """

    def __init__(self, config: Config, state: ServerState, limits: ConnectionLimits) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._limits = limits
        self._head = HeadBytes(limits.head_bytes)
        self._cycles: deque[RequestResponseCycle] = deque()
        """Requests that are not answered yet, oldest first; uvicorn knows the newest alone."""
        self._in_body = self._broken = self._overfull = self._repeating = False
        self._offered = b""
        """Head of the body that stands behind an offer of another protocol."""
        self._began = self._answered = time.monotonic()
        self._last_unread, self._unread_since, self._unread_moved = 0, 0.0, 0.0
        self._emptied = self._began

    # What uvicorn calls ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """See :meth:`asyncio.Protocol.data_received`."""
        self._unset_keepalive_if_required()
        if self._broken:
            return
        self._head.before_piece(self._in_body)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            if self._overfull:
                return
            if self._head.is_too_large:
                self._refuse_head()
            else:
                self._refuse(400, "the request is no HTTP/1.1; correct it, or look for a proxy that damages it")
            return
        self._head.after_piece(len(data), self._in_body)
        if self._head.is_too_large:
            self._refuse_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :meth:`asyncio.Protocol.connection_lost`; every request hears of it."""
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()
        self._cycles.clear()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """See :class:`httptools.HttpRequestParser`."""
        if self._repeating:
            return
        self._head.begin()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """See :class:`httptools.HttpRequestParser`."""
        if self._repeating:
            return
        self._head.field(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """See :class:`httptools.HttpRequestParser`."""
        if self._repeating:
            return
        self._head.field(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """See :class:`httptools.HttpRequestParser`."""
        if self._repeating:
            return
        self._head.end()
        if self.parser.should_upgrade():
            self._offered = head_of_body(self.headers)
        super().on_headers_complete()
        if len(self.pipeline) > _MAX_PIPELINED:
            self._end_pipeline()
        self._in_body = True
        self._cycles.append(self.cycle)
        limit = self._limits.age_seconds
        if limit and time.monotonic() - self._began > limit:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """See :class:`httptools.HttpRequestParser`."""
        self._head.body()
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """See :class:`httptools.HttpRequestParser`."""
        self._head.body()

    def on_message_complete(self) -> None:
        """See :class:`httptools.HttpRequestParser`."""
        if self._offered:  # its body is still to come
            return
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """See :class:`uvicorn.protocols.http.httptools_impl.HttpToolsProtocol`."""
        self._answered = time.monotonic()
        if self._cycles:
            self._cycles.popleft()
        super().on_response_complete()

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                self._decline()
            else:
                return

    def _decline(self) -> None:
        """Goes on in HTTP/1.1 behind the head of a request that offers another protocol."""
        head, self._offered = self._offered, b""
        self.parser = new_parser(self)
        self._repeating = True
        try:
            self.parser.feed_data(head)
        finally:
            self._repeating = False

    # Limits ---------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """True while there is no request to answer."""
        return not self._cycles or self._cycles[0].more_body

    @property
    def silent_since(self) -> float:
        """Monotonic time at which the connection began, or had its last answer."""
        return self._answered

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not taken."""
        transport = self.transport
        below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)  # where TLS leaves its bytes
        try:
            return transport.get_write_buffer_size() + (0 if below is None else below.get_write_buffer_size())
        except AttributeError:  # a connection of TLS that has ended
            return 0

    @property
    def unread_since(self) -> float:
        """Monotonic time since which there are such bytes."""
        return self._unread_since

    def check(self, now: float) -> None:
        """Ends the connection if it takes too long.

        Args:
            now: Monotonic time.
        """
        limits, transport = self._limits, self.transport
        cycle: RequestResponseCycle | None = self.cycle
        if self._last_unread or not transport.is_closing():
            self._emptied = now
        if self._answer_is_stuck(now) or now - self._emptied > limits.idle_seconds:  # whose client does not end TLS
            transport.abort()
        elif transport.is_closing() or self._broken:
            return
        elif self._head.arriving:
            if now - self._head.began > limits.head_seconds:
                self._refuse(408, f"the head of the request was not there after {limits.head_seconds:g} s")
        elif cycle is None:
            if now - self._began > limits.head_seconds:
                transport.close()
        elif cycle.response_complete and self._in_body:  # the rest of a body that was refused
            if now - self._answered > limits.idle_seconds:
                transport.abort()
        elif cycle.response_complete and self._is_over(now):
            transport.close()

    def end(self) -> None:
        """Ends the connection at once."""
        self.transport.abort()

    def _is_over(self, now: float) -> bool:
        """True once a connection without a request is too old, or was silent for too long.

        uvicorn stops its own clock with any byte, such as an empty line, that begins no request.
        """
        limits = self._limits
        too_old = limits.age_seconds and now - self._began > limits.age_seconds
        return bool(too_old) or now - self._answered > limits.keep_alive_seconds

    def _answer_is_stuck(self, now: float) -> bool:
        """Finds if a client does not read its answer."""
        unread = self.unread
        if not unread:
            self._last_unread = 0
            return False
        if not self._last_unread:
            self._unread_since = now
        if unread != self._last_unread:
            self._last_unread, self._unread_moved = unread, now
        limits = self._limits
        return now - self._unread_moved > limits.idle_seconds or now - self._unread_since > limits.answer_seconds

    def _end_pipeline(self) -> None:
        """Drops the newest request and all behind it; the connection ends with the answer to the one before.

        uvicorn stops reading where requests wait, but one read may hold thousands of them.
        """
        self.pipeline.popleft()
        self.cycle = self.pipeline[0][0]
        self.cycle.keep_alive = False
        self._broken = self._overfull = True
        self._in_body = False
        raise OverflowError  # the parser stops

    def _drop_newest(self) -> None:
        """Gives up the request whose body is broken; nobody waits for its answer any more."""
        if not self._cycles:
            return
        newest = self._cycles.pop()
        if self._cycles:  # it was not begun
            self.pipeline.popleft()
            self.cycle = self._cycles[-1]
        newest.disconnected = True
        newest.message_event.set()

    def _refuse_head(self) -> None:
        limit = self._limits.head_bytes
        self._refuse(431, f"the head of the request has more than {limit} bytes; send fewer or shorter headers")

    def _refuse(self, status: int, reason: str) -> None:
        """Answers a request that is none, once those before it are answered by closing alone, and closes."""
        self._broken = True
        if self._in_body:
            self._drop_newest()
        if self._cycles:
            self._cycles[-1].keep_alive = False  # the connection ends with its answer
            return
        if self._in_body and self.cycle.response_started:  # no second answer
            self.transport.close()
            return
        body = orjson.dumps({"error": reason})
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(_STATUS_LINES[status] + head + body)
        # Closing at once, over bytes that are still on their way, would cut the answer off.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)


def make_config(application: Any, limits: ConnectionLimits) -> Config:
    """Returns the settings of uvicorn: nothing but HTTP/1.1, and no log of its own."""
    return Config(
        application,
        http=HttpToolsProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=max(1, round(limits.keep_alive_seconds)),
    )
