"""A Hugging Face of one model, org/tiny, on this machine: it sends its files, or a half of them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

REPOSITORY = "org/tiny"
WEIGHTS = "model.safetensors"


class Hub(ThreadingHTTPServer):
    """`hold` keeps back the second half of the weights until `let_go`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = {
            "config.json": json.dumps({"max_position_embeddings": 512}).encode(),
            WEIGHTS: b"w" * 24_000_000,  # the library writes ten million bytes at a time
        }
        self.sent: list[str] = []  # the names of files, as their sending began
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def revision(self) -> str:
        return hashlib.sha1(repr(self.files).encode()).hexdigest()

    @property
    def num_begun(self) -> int:
        """Downloads of the weights."""
        return self.sent.count(WEIGHTS)

    def hold(self) -> None:
        self.may_go_on.clear()

    def let_go(self) -> None:
        self.may_go_on.set()


@contextmanager
def running_hub() -> Iterator[Hub]:
    with Hub() as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        yield hub
        hub.let_go()
        hub.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        hub = self.server
        if path.startswith(f"/api/models/{REPOSITORY}/tree/"):
            self._send_json([_entry(name, data) for name, data in hub.files.items()])
        elif path.startswith(f"/api/models/{REPOSITORY}"):
            files = [{"rfilename": name, "size": len(data)} for name, data in hub.files.items()]
            self._send_json({"id": REPOSITORY, "sha": hub.revision, "siblings": files})
        elif (name := path.rsplit("/", 1)[1]) in hub.files:
            self._send_file(name, hub.files[name])
        else:
            self._send_head(404, 0)

    def _send_json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self._send_head(200, len(body))
        self.wfile.write(body)

    def _send_file(self, name: str, data: bytes) -> None:
        told = {
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "X-Repo-Commit": self.server.revision,
        }
        self._send_head(200, len(data), told)
        if self.command == "HEAD":
            return
        self.server.sent.append(name)
        if name != WEIGHTS:
            self.wfile.write(data)
            return
        half = len(data) // 2
        with contextlib.suppress(OSError):  # who wanted them has gone
            self.wfile.write(data[:half])
            self.server.may_go_on.wait()
            self.wfile.write(data[half:])

    def _send_head(self, status: int, length: int, told: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in (told or {}).items():
            self.send_header(name, value)
        self.end_headers()


def _entry(name: str, data: bytes) -> dict[str, object]:
    return {
        "type": "file",
        "path": name,
        "size": len(data),
        "oid": hashlib.sha1(data).hexdigest(),
    }
