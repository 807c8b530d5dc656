"""A stand-in for the Hugging Face hub on 127.0.0.1: repositories of models in memory, by the calls of its library.

Commits are NDJSON with small files inside; weights go the way of LFS. Every request is kept, with its headers.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from stand_in import QuietHandler, StandIn

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


class HubServer(StandIn):
    """The server."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.repositories: dict[str, Repository] = {}
        self.objects: Files = {}
        self.failure: tuple[int, dict[str, str]] | None = None
        """Status and headers of every answer from now on."""
        self.answers = True
        """False ends connections without an answer."""
        self.tampered: Files = {}
        """Content that is handed out in the place of files of these names."""
        self.requests: list[tuple[str, str, dict[str, str]]] = []


class _Handler(QuietHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer_request()

    do_GET = do_POST = do_PUT = do_HEAD

    def _answer_request(self) -> None:
        body = self._body()
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        if not self.server.answers:
            self.close_connection = True
            return
        if self.server.failure is not None:
            status, headers = self.server.failure
            self.send(status, b"{}", headers)
            return
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        if parts[0] == "api":
            self._api(parts[1:], body)
        elif parts[0] == "objects":
            self.server.objects[parts[1]] = body
            self.send(200, b"")
        elif parts[2:] == ["info", "lfs", "objects", "batch"]:
            self._lfs(json.loads(body))
        elif parts[2] == "resolve":
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self.send(404, b"{}")

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
            self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _create(self, asked: dict[str, Any]) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send(401, b"{}", {"X-Error-Message": "Invalid credentials in Authorization header"})
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
            self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
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
            self.send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
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
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        content = self.server.tampered.get(path, found[1][path])
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": found[0]}
        if part := self.asked_range(len(content)):
            begin, end = part
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
            self.send(206, content[begin:end], headers)
        else:
            self.send(200, content, headers)

    def _json(self, value: Any, status: int = 200) -> None:
        self.send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})
