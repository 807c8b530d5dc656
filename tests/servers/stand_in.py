"""What the stand-ins for web servers share: a port on 127.0.0.1, a thread while a block lasts, and answers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class StandIn(ThreadingHTTPServer):
    """A server that runs in a thread while the block lasts.

    Args:
        handler: Answers the requests.
        port: Port to listen on; 0 takes a free one.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class QuietHandler(BaseHTTPRequestHandler):
    """Answers without a word on standard error."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def asked_range(self, size: int) -> tuple[int, int] | None:
        """Reads the part of a file that is asked for: its begin and its end; None for the whole."""
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        return (int(first), min(int(last or size) + 1, size)) if first else None

    def send(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Sends an answer; only its head where that is what was asked for."""
        self.send_response(status)
        for key, text in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, text)
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(content)

    def send_body(self, content: bytes) -> None:
        """Sends the body of an answer."""
        self.wfile.write(content)
