"""A TCP line to a Redis that may fall silent, as one to a machine that has lost its power: who
waits at it hears nothing, not even its end. New connections are not concerned.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class RedisLine:
    def __init__(self, unix_url: str) -> None:
        self._path = unix_url.removeprefix("unix://")
        self._server = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._silent: set[socket.socket] = set()
        self._start(self._accept)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._server.getsockname()[1]}"

    def fall_silent(self) -> None:
        self._silent.update(self._sockets)

    def close(self) -> None:
        for one in (self._server, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            far = socket.socket(socket.AF_UNIX)
            self._sockets += (near, far)
            far.connect(self._path)
            self._start(self._carry, near, far)
            self._start(self._carry, far, near)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        while content := source.recv(1 << 16):
            if source not in self._silent:
                target.sendall(content)

    def _start(self, run: Callable[..., None], *sockets: socket.socket) -> None:
        def until_closed() -> None:
            with contextlib.suppress(OSError):
                run(*sockets)

        threading.Thread(target=until_closed, daemon=True).start()
