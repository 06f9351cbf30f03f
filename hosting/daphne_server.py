"""The web process: Daphne, and an end to bodies and to sockets' messages that nobody would read.

Daphne takes the whole body to disk and then to memory before anything of ours sees the request, a
stranger's too. What is a little too large still gets the API's own 413. Of uploaded files, which
may be larger, only what is read at the moment is in memory.

    python -m hosting.daphne_server -b 127.0.0.1 -p 8000 hosting.asgi:application
"""

from __future__ import annotations

import gc
from http import HTTPStatus
from typing import IO, Any

from daphne.cli import CommandLineInterface
from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from django.conf import settings
from twisted.web.http import RESPONSES, HTTPChannel

from hosting.socket_limits import LimitedSocket

MAX_BODY_BYTES = 64 * 1024 * 1024  # twice DATA_UPLOAD_MAX_MEMORY_SIZE
UPLOADS = b"/v1/files"
FORM_BYTES = 1024 * 1024  # around an uploaded file
TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
LONG_HEADER = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class PieceOnDisk(dict[str, Any]):
    """A part of a body as ASGI tells it, read from Daphne's file of it when it is asked for."""

    def __init__(self, message: dict[str, Any], content: IO[bytes]) -> None:
        super().__init__(message, body=None)
        self._content = content
        self._length = len(message["body"])
        self._start = content.tell() - self._length

    def __getitem__(self, name: str) -> Any:
        if name != "body":
            return super().__getitem__(name)
        if self._content.closed:  # the client has left, as the next message says
            return b""
        self._content.seek(self._start)
        return self._content.read(self._length)


class UploadQueue:
    """Daphne puts all of a body here at once; in memory it would be as long as it takes to read."""

    def __init__(self, queue: Any, content: IO[bytes]) -> None:
        self._queue = queue
        self._content = content

    def put_nowait(self, message: dict[str, Any]) -> None:
        if message.get("body"):
            message = PieceOnDisk(message, self._content)
        self._queue.put_nowait(message)


class LimitedRequest(WebRequest):
    """Hangs up on a body beyond the limit of its address, at its announcement or while it
    arrives."""

    _num_bytes = 0
    is_upload = False

    def gotLength(self, length: int | None) -> None:
        address = self.channel._path  # which the request itself learns after its body
        self.is_upload = address.partition(b"?")[0] == UPLOADS
        super().gotLength(0 if self._is_refused(length or 0) else length)

    def handleContentChunk(self, data: bytes) -> None:
        self._num_bytes += len(data)
        if not self._is_refused(self._num_bytes):
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Twisted would read a form into memory and take it apart, for nobody: it is told of none
        until that is over."""
        if self.is_upload:
            self._content_types = self.requestHeaders.getRawHeaders(b"content-type", [])
            self.requestHeaders.removeHeader(b"content-type")
        super().requestReceived(command, path, version)

    def process(self) -> Any:
        if self.is_upload:
            self.requestHeaders.setRawHeaders(b"content-type", self._content_types)
        return super().process()

    def _is_refused(self, num_bytes: int) -> bool:
        most = settings.MAX_FILE_BYTES + FORM_BYTES if self.is_upload else MAX_BODY_BYTES
        if num_bytes <= most:
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

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        queue = super().create_application(protocol, scope)
        is_upload = queue is not None and getattr(protocol, "is_upload", False)
        return UploadQueue(queue, protocol.content) if is_upload else queue

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
