"""A web server of files in memory with folders as pages, entity tags and ranges, which can be made to fail."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from stand_in import QuietHandler, StandIn

_PIECE: Final = 64 * 1024


class FileStore(StandIn):
    """The server.

    Args:
        port: Port to listen on; 0 takes a free one.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__(_Handler, port)
        self.files: dict[str, bytes] = {}
        """Path without a slash at its begin -> content."""
        self.tampered: dict[str, bytes] = {}
        """Content that is sent in the place of that of a file."""
        self.links: dict[str, list[str]] = {}
        """Folder -> further links on its page."""
        self.status = 0
        """Status of every answer from now on; 0 for the right one."""
        self.cut = 0
        """Bytes of a body after which connections are closed; 0 for none."""
        self.before_piece: Callable[[int], object] = lambda sent: None
        """Called before each 64 KiB of a file with the bytes sent so far; the file waits for it."""
        self.ranges = True
        self.range_status = 0
        """Status of the answers to requests for parts of files; 0 for the right one."""
        self.tagged = True
        self.headers: dict[str, dict[str, str]] = {}
        """File -> further headers."""
        self.user: tuple[str, str] | None = None
        """Name and password that are asked for."""
        self.token = ""
        """Value of the parameter ``token`` that is asked for."""
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request."""
        self.seen: list[dict[str, str]] = []
        """Headers of every request."""
        self.begun: dict[str, list[int]] = {}
        """File -> first byte of each answer."""

    def put(self, folder: Path, prefix: str = "models") -> None:
        """Takes the files of a folder, in place of those before."""
        self.files = {
            f"{prefix}/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def sent(self, method: str, ending: str) -> int:
        """Counts the requests of a file."""
        return sum(kind == method and path.endswith(ending) for kind, path in self.requests)


class _Handler(QuietHandler):
    server: FileStore
    _is_file = False

    def do_HEAD(self) -> None:
        self._answer()

    do_GET = do_HEAD

    def _answer(self) -> None:
        store = self.server
        parts = urlsplit(self.path)
        path = unquote(parts.path).strip("/")
        store.requests.append((self.command, path))
        store.seen.append(dict(self.headers))
        if store.status:
            self.send(store.status, b"a fault of " + self.path.encode())
        elif not self._is_allowed(parts.query):
            self.send(401 if store.user else 403, b"refused " + self.path.encode())
        elif path in store.files:
            self._send_file(path)
        elif any(name.startswith(f"{path}/" if path else "") for name in store.files) or path in store.links:
            self.send(200, self._page(path).encode(), {"Content-Type": "text/html"})
        else:
            self.send(404, b"")

    def _is_allowed(self, query: str) -> bool:
        user, token = self.server.user, self.server.token
        expected = base64.b64encode(":".join(user).encode()).decode() if user else ""
        given = self.headers.get("Authorization", "")
        return (not user or given == f"Basic {expected}") and (not token or parse_qs(query).get("token") == [token])

    def _page(self, folder: str) -> str:
        prefix = f"{folder}/" if folder else ""
        rest = [name.removeprefix(prefix) for name in self.server.files if name.startswith(prefix)]
        names = sorted({f"{name.split('/')[0]}/" if "/" in name else name for name in rest})
        links = ["../", "?C=N;O=D", *map(quote, names), *self.server.links.get(folder, ())]
        return "".join(f'<a href="{html.escape(link)}">{html.escape(link)}</a>\n' for link in links)

    def _send_file(self, path: str) -> None:
        content = self.server.files[path]
        tag = hashlib.sha1(content).hexdigest()
        content = self.server.tampered.get(path, content)
        headers = {"Content-Type": "application/octet-stream"} | ({"ETag": f'"{tag}"'} if self.server.tagged else {})
        headers |= self.server.headers.get(path, {})
        part = self.asked_range(len(content))
        if self.command == "GET":
            self.server.begun.setdefault(path, []).append(part[0] if part else 0)
        if part and self.server.range_status:
            self.send(self.server.range_status, b"")
        elif part and self.server.ranges:
            begin, end = part
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
            self._is_file = True
            self.send(206, content[begin:end], headers)
        else:
            self._is_file = True
            self.send(200, content, headers)

    def send_body(self, content: bytes) -> None:
        """Sends a file in pieces, which wait or end where the test says so."""
        cut = self.server.cut if self._is_file else 0
        try:
            for begin in range(0, len(content), _PIECE):
                if self._is_file:
                    self.server.before_piece(begin)
                piece = content[begin : begin + _PIECE]
                self.wfile.write(piece[: cut - begin] if cut else piece)
                if cut and begin + len(piece) > cut:
                    self.close_connection = True
                    return
        except OSError:
            self.close_connection = True
