"""POSTs to one place within one time. No redirect is followed, no proxy asked, no body unpacked.

The time is one for everything together: a server that sends a byte a second does not stretch it.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

from hosting.mcp.addresses import Place
from hosting.mcp.errors import NoLongerWanted, ToolServerError

CONNECT_SECONDS = 10.0
_LOOK_SECONDS = 1.0


class Exchange:
    """Several requests, each on a connection of its own. `is_wanted` is asked every second."""

    def __init__(
        self, place: Place, *, seconds: float, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        self._place = place
        self._seconds = seconds
        self._ends_at = time.monotonic() + seconds
        self._is_wanted = is_wanted
        self._is_over = threading.Event()
        self._why: ToolServerError | None = None
        self._socket: socket.socket | None = None
        self._watch = threading.Thread(target=self._look, name="tool-server-watch", daemon=True)

    def __enter__(self) -> Exchange:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._watch.join()

    @contextlib.contextmanager
    def request(
        self, method: str, headers: dict[str, str], body: bytes | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Raises ToolServerError for whatever happens to the connection, also while it is read."""
        with contextlib.closing(self._connection()) as connection:
            try:
                self._connect(connection)
                connection.request(method, self._place.path, body, headers)
                with connection.getresponse() as response:
                    yield response
            except (OSError, http.client.HTTPException, ValueError, ToolServerError) as error:
                raise self._why or _told(error) from None
            finally:
                self._socket = None
            if self._why is not None:  # what was read may be cut
                raise self._why

    def _connection(self) -> http.client.HTTPConnection:
        made = http.client.HTTPConnection(self._place.host, self._place.port)
        made.default_port = 443 if self._place.scheme == "https" else 80
        return made

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        """To an address that was checked; the certificate is the name's."""
        place = self._place
        made = self._connected()
        connection.sock = self._socket = made  # which the caller closes
        if place.scheme == "https":
            context = ssl.create_default_context()
            made = context.wrap_socket(made, server_hostname=place.host)
            connection.sock = self._socket = made
        made.settimeout(self._seconds)

    def _connected(self) -> socket.socket:
        """To the first address that lets us; the last one's reason where none does."""
        *others, last = self._place.addresses
        for address in others:
            with contextlib.suppress(OSError):
                return self._connected_to(address)
        return self._connected_to(last)

    def _connected_to(self, address: str) -> socket.socket:
        if self._why is not None:
            raise self._why
        seconds = min(CONNECT_SECONDS, self._left)
        if seconds <= 0:
            raise self._too_late()
        return socket.create_connection((address, self._place.port), seconds)

    def _look(self) -> None:
        while not self._is_over.wait(max(0.0, min(_LOOK_SECONDS, self._left))):
            if self._left <= 0:
                self._why = self._too_late()
            elif not self._is_wanted():
                self._why = NoLongerWanted("It was given up.")
            if self._why is not None:
                return self._cut_when_there()
        return None

    def _cut_when_there(self) -> None:
        """Also a connection that is only being made."""
        while True:
            if (open_one := self._socket) is not None:
                with contextlib.suppress(OSError):
                    open_one.shutdown(socket.SHUT_RDWR)
            if self._is_over.wait(0.05):
                return

    @property
    def _left(self) -> float:
        return self._ends_at - time.monotonic()

    def _too_late(self) -> ToolServerError:
        return ToolServerError(f"The tool server did not answer within {self._seconds:g} s.")


def _told(error: Exception) -> ToolServerError:
    return error if isinstance(error, ToolServerError) else ToolServerError(_sentence(error))


def _sentence(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The tool server's certificate is not valid: {error.verify_message}."
    if isinstance(error, ConnectionRefusedError):
        return "The tool server refuses connections."
    if isinstance(error, TimeoutError):
        return "The tool server does not answer."
    if isinstance(error, http.client.HTTPException | ValueError):
        return "The tool server's answer is not HTTP, or was cut."
    return f"The connection to the tool server failed ({type(error).__name__})."
