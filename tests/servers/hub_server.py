"""A stand-in for the Hugging Face hub on 127.0.0.1: repositories of models in memory, by the calls of its library.

Commits are NDJSON with small files inside; weights go the way of LFS. Every request is kept, with its headers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_secretTokenOfTests"
Files = dict[str, bytes]


@dataclass
class Repository:
    """Branches of a repository, each a list of its files."""

    branches: dict[str, Files] = field(default_factory=lambda: {"main": {".gitattributes": b""}})
    private: bool = False

    def commit(self, revision: str) -> str:
        """Digest of a branch's files, in the place of a commit."""
        content = json.dumps({name: hashlib.sha1(file).hexdigest() for name, file in self.branches[revision].items()})
        return hashlib.sha1(f"{revision} {content}".encode()).hexdigest()

    def files(self, revision: str) -> tuple[str, Files] | None:
        """Commit and files of a branch, or of a commit."""
        for branch, files in self.branches.items():
            if revision in (branch, self.commit(branch)):
                return self.commit(branch), files
        return None


class HubServer(ThreadingHTTPServer):
    """The server; it runs in a thread while the block lasts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.objects: Files = {}
        self.failure: tuple[int, dict[str, str]] | None = None
        """Status and headers of every answer from now on."""
        self.tampered: Files = {}
        """Content that is handed out in the place of files of these names."""
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Address of the hub."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self._answer_request()

    do_GET = do_POST = do_PUT = do_HEAD

    def _answer_request(self) -> None:
        body = self._body()
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        if self.server.failure is not None:
            status, headers = self.server.failure
            self._send(status, b"{}", headers)
            return
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        if parts[0] == "api":
            self._api(parts[1:], body)
        elif parts[0] == "objects":
            self.server.objects[parts[1]] = body
            self._send(200, b"")
        elif parts[2:] == ["info", "lfs", "objects", "batch"]:
            self._lfs(json.loads(body))
        elif parts[2] == "resolve":
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self._send(404, b"{}")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = b""
        while size := int(self.rfile.readline(), 16):
            chunks += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return chunks

    def _api(self, parts: list[str], body: bytes) -> None:
        if parts == ["repos", "create"]:
            self._create(json.loads(body))
        elif parts == ["validate-yaml"]:
            self._json({"errors": [], "warnings": []})
        elif parts == ["models"]:
            (author,) = parse_qs(urlsplit(self.path).query)["author"]
            self._json([{"id": name} for name in self.server.repositories if name.startswith(f"{author}/")])
        elif parts[0] == "models" and (repository := self.server.repositories.get("/".join(parts[1:3]))):
            self._repository("/".join(parts[1:3]), repository, parts[3:], body)
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _create(self, asked: dict[str, Any]) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, b"{}", {"X-Error-Message": "Invalid credentials in Authorization header"})
            return
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        status = 409 if name in self.server.repositories else 200
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.server.repositories.setdefault(name, Repository(private=private))
        self._json({"url": f"{self.server.url}/{name}"}, status)

    def _repository(self, name: str, repository: Repository, parts: list[str], body: bytes) -> None:
        what, revision = (parts or ["revision"])[0], "main" if len(parts) < 2 else parts[1]
        if what == "branch":
            repository.branches.setdefault(revision, dict(repository.branches["main"]))
            self._json({})
            return
        if what == "refs":
            branches = [
                {"name": branch, "ref": f"refs/heads/{branch}", "targetCommit": repository.commit(branch)}
                for branch in repository.branches
            ]
            self._json({"branches": branches, "converts": [], "tags": []})
            return
        found = repository.files(revision)
        if found is None:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        commit, files = found
        if what == "revision":
            self._json({"id": name, "sha": commit, "siblings": [{"rfilename": file} for file in files]})
        elif what == "tree":
            self._tree(files, "/".join(parts[2:]))
        elif what == "preupload":
            self._json({"files": [self._upload(file["path"]) for file in json.loads(body)["files"]]})
        else:
            self._commit(repository, revision, [json.loads(line) for line in body.splitlines()])
            self._json({"commitUrl": f"{self.server.url}/{name}/commit/x", "commitOid": repository.commit(revision)})

    def _tree(self, files: Files, folder: str) -> None:
        """Lists the files below a folder, or with ``recursive=false`` what is in it."""
        prefix = f"{folder}/" if folder else ""
        below = {path: content for path, content in files.items() if path.startswith(prefix)}
        if folder and not below:
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        entries = [self._entry(path, content) for path, content in below.items()]
        if parse_qs(urlsplit(self.path).query).get("recursive", ["true"])[0].lower() == "false":
            inner = {path.removeprefix(prefix).split("/")[0] for path in below if "/" in path.removeprefix(prefix)}
            folders = [{"type": "directory", "path": prefix + name, "size": 0, "oid": "0" * 40} for name in inner]
            entries = [*folders, *(entry for entry in entries if "/" not in entry["path"].removeprefix(prefix))]
        self._json(entries)

    @classmethod
    def _entry(cls, path: str, content: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": blob}
        if cls._upload(path)["uploadMode"] == "lfs":
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
        return entry

    @staticmethod
    def _upload(path: str) -> dict[str, Any]:
        large = path.endswith((".safetensors", ".onnx", ".npz"))
        return {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}

    def _commit(self, repository: Repository, revision: str, lines: list[dict[str, Any]]) -> None:
        files = repository.branches[revision]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]

    def _lfs(self, asked: dict[str, Any]) -> None:
        objects = [
            {**item, "actions": {"upload": {"href": f"{self.server.url}/objects/{item['oid']}"}}}
            for item in asked["objects"]
        ]
        self._json({"transfer": "basic", "objects": objects})

    def _resolve(self, name: str, revision: str, path: str) -> None:
        found = self.server.repositories[name].files(revision)
        if found is None or path not in found[1]:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        content = self.server.tampered.get(path, found[1][path])
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": found[0]}
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if first:
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            self._send(206, content[int(first) : int(last) + 1], headers)
        else:
            self._send(200, content, headers)

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, text in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
