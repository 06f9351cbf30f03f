"""A download that a crash or a restart interrupts goes on by itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.stack import Stack, running_stack

pytestmark = pytest.mark.stack


class SlowHub(ThreadingHTTPServer):
    """A Hugging Face that takes requests and never answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.num_asked = 0
        self.is_over = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: SlowHub

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/org/tiny"):
            self.server.num_asked += 1
        self.server.is_over.wait()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def hub() -> Iterator[SlowHub]:
    with SlowHub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.is_over.set()
        server.shutdown()


@pytest.fixture(scope="module")
def stack(hub: SlowHub) -> Iterator[Stack]:
    with running_stack(HF_ENDPOINT=f"http://127.0.0.1:{hub.server_port}") as running:
        yield running


def test_a_download_goes_on_when_its_process_has_died(stack: Stack, hub: SlowHub) -> None:
    stack.manage("add_model", "org/tiny")
    stack.wait_until(lambda: hub.num_asked == 1, "fetching")
    stack.kill("celery")
    stack.wait_until(lambda: hub.num_asked > 1, "fetching again")
