"""A web server of files in memory with folders as pages, entity tags and ranges, which can be made to fail."""

from __future__ import annotations

import base64
import hashlib
import html
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit


class FileStore(ThreadingHTTPServer):
    """The server; it runs in a thread while the block lasts.

    Args:
        port: Port to listen on; 0 takes a free one.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
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
        self.begun: dict[str, list[int]] = {}
        """File -> first byte of each answer."""
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, folder: Path, prefix: str = "models") -> None:
        """Takes the files of a folder, in place of those before."""
        self.files = {
            f"{prefix}/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def sent(self, method: str, ending: str) -> int:
        """Counts the requests of a file."""
        return sum(kind == method and path.endswith(ending) for kind, path in self.requests)

    def __enter__(self) -> FileStore:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FileStore

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    do_GET = do_HEAD

    def _answer(self) -> None:
        store = self.server
        parts = urlsplit(self.path)
        path = unquote(parts.path).strip("/")
        store.requests.append((self.command, path))
        if store.status:
            self._send(store.status, b"a fault of " + self.path.encode())
        elif not self._is_allowed(parts.query):
            self._send(401 if store.user else 403, b"refused " + self.path.encode())
        elif path in store.files:
            self._send_file(path)
        elif any(name.startswith(f"{path}/" if path else "") for name in store.files) or path in store.links:
            self._send(200, self._page(path).encode(), {"Content-Type": "text/html"})
        else:
            self._send(404, b"")

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
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if self.command == "GET":
            self.server.begun.setdefault(path, []).append(int(first or 0))
        if first and self.server.range_status:
            self._send(self.server.range_status, b"")
        elif first and self.server.ranges:
            begin, end = int(first), min(int(last or len(content)) + 1, len(content))
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
            self._send(206, content[begin:end], headers)
        else:
            self._send(200, content, headers)

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, text in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, text)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.server.cut if status in (200, 206) and headers and "ETag" in headers else 0
        try:
            for begin in range(0, len(content), 65536):
                if "ETag" in (headers or {}):
                    self.server.before_piece(begin)
                piece = content[begin : begin + 65536]
                if cut and begin + len(piece) > cut:
                    self.wfile.write(piece[: cut - begin])
                    self.close_connection = True
                    return
                self.wfile.write(piece)
        except OSError:
            self.close_connection = True
