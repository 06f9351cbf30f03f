"""The web process: Daphne, and an end to bodies and to sockets' messages that nobody would read.

Daphne takes the whole body to disk and then to memory before anything of ours sees the request, a
stranger's too. What is a little too large still gets the API's own 413.

    python -m hosting.daphne_server -b 127.0.0.1 -p 8000 hosting.asgi:application
"""

from __future__ import annotations

import gc
from http import HTTPStatus
from typing import Any

from daphne.cli import CommandLineInterface
from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from twisted.web.http import RESPONSES, HTTPChannel

from hosting.socket_limits import LimitedSocket

MAX_BODY_BYTES = 64 * 1024 * 1024  # twice DATA_UPLOAD_MAX_MEMORY_SIZE
TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
LONG_HEADER = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class LimitedRequest(WebRequest):
    """Hangs up on a body beyond MAX_BODY_BYTES, at its announcement or while it arrives."""

    _num_bytes = 0

    def gotLength(self, length: int | None) -> None:
        super().gotLength(0 if self._is_refused(length or 0) else length)

    def handleContentChunk(self, data: bytes) -> None:
        self._num_bytes += len(data)
        if not self._is_refused(self._num_bytes):
            super().handleContentChunk(data)

    def _is_refused(self, num_bytes: int) -> bool:
        if num_bytes <= MAX_BODY_BYTES:
            return False
        if not self.channel.transport.disconnecting:
            self.channel.transport.write(TOO_LARGE)
            self.channel.loseConnection()
        return True


class LimitedChannel(HTTPChannel):
    """Twisted takes 16 KiB and 500 lines of header; this says why it hangs up on more."""

    def lineLengthExceeded(self, line: bytes) -> None:
        self.transport.write(LONG_HEADER)
        self.loseConnection()

    def _respondToBadRequestAndDisconnect(self) -> None:
        is_long = self._receivedHeaderSize > self.totalHeadersSize
        if is_long or self._receivedHeaderCount > self.maxHeaders:
            self.transport.write(LONG_HEADER)
            self.loseConnection()
        else:
            super()._respondToBadRequestAndDisconnect()


class LimitedFactory(HTTPFactory):
    protocol = LimitedChannel

    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = LimitedRequest
        return protocol


class LimitedServer(Server):
    def run(self) -> None:
        # What is imported stays: looking through it for garbage held up requests for 50 ms
        gc.collect()
        gc.freeze()
        super().run()

    def kill_all_applications(self) -> Any:
        """At a stop: what answers is ended, and cancels what it leaves. Daphne's own stumbles over
        a connection whose application has ended already."""
        for protocol, details in list(self.connections.items()):
            if "application_instance" not in details:
                del self.connections[protocol]
        return super().kill_all_applications()

    @property
    def http_factory(self) -> LimitedFactory:
        return LimitedFactory(self)

    @http_factory.setter
    def http_factory(self, made_by_run: HTTPFactory) -> None:
        """Ours takes the place of the one that Daphne's `run` makes."""

    @property
    def ws_factory(self) -> WebSocketFactory:
        return self._ws_factory

    @ws_factory.setter
    def ws_factory(self, made_by_run: WebSocketFactory) -> None:
        made_by_run.protocol = LimitedSocket
        self._ws_factory = made_by_run


def name_every_status() -> None:
    """Twisted knows no 422 and no 429, and says "Unknown Status"."""
    RESPONSES.update({int(one): one.phrase.encode() for one in HTTPStatus if one not in RESPONSES})


class LimitedCommand(CommandLineInterface):
    server_class = LimitedServer

    def __init__(self) -> None:
        """Silent unless told otherwise: Daphne lists each address, invitations' among them."""
        super().__init__()
        self.parser.set_defaults(verbosity=0)


if __name__ == "__main__":
    name_every_status()
    LimitedCommand.entrypoint()
