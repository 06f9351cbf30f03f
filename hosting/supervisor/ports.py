"""The web port: whether it is free, which one is, if not, and the socket that listens there."""

from __future__ import annotations

import errno
import socket

NUM_TRIES = 50
BACKLOG = 512
ANSWER_SECONDS = 1.0


class PortTaken(Exception):
    """Something else already listens on the web port."""


class BadAddress(Exception):
    """Nobody can listen on this address and port, taken or not."""


def check_port(bind: str, port: int) -> None:
    """Raises PortTaken with the next free port in the message, or BadAddress."""
    if is_free(bind, port):
        return
    candidates = range(port + 1, min(port + 1 + NUM_TRIES, 65536))
    free = next((one for one in candidates if is_free(bind, one)), None)
    hint = f"Start with PORT={free} (port {free} is free)." if free else "Choose another by PORT=."
    raise PortTaken(f"Port {port} on {bind} is taken. {hint}")


def is_free(bind: str, port: int) -> bool:
    """Raises BadAddress where that is not the question."""
    try:
        _bound(bind, port).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise BadAddress(
            f"Nobody can listen on HEARTH_BIND={bind} PORT={port}: {error.strerror}."
        ) from error
    return not _is_answered(bind, port)


def _is_answered(bind: str, port: int) -> bool:
    """macOS lets two have a port, one at all addresses and one at a single one, which then gets
    what is sent there."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)
    try:
        with socket.create_connection((host, port), timeout=ANSWER_SECONDS) as connection:
            return bool(connection.getsockname() != connection.getpeername())  # not itself
    except OSError:
        return False


def listen(bind: str, port: int) -> socket.socket:
    """A socket that all web processes accept from. Raises OSError when the port is taken."""
    listener = _bound(bind, port)
    listener.listen(BACKLOG)
    return listener


def _bound(bind: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in bind else socket.AF_INET)
    # A closed connection's leftovers are no obstacle
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((bind, port))
    except OSError:
        bound.close()
        raise
    return bound
