"""Whether the web port is free, and which one is, if not."""

from __future__ import annotations

import socket

NUM_TRIES = 50


class PortTaken(Exception):
    """Something else already listens on the web port."""


def check_port(bind: str, port: int) -> None:
    """Raises PortTaken with the next free port in the message."""
    if is_free(bind, port):
        return
    candidates = range(port + 1, min(port + 1 + NUM_TRIES, 65536))
    free = next((one for one in candidates if is_free(bind, one)), None)
    hint = f"Start with PORT={free} (port {free} is free)." if free else "Choose another by PORT=."
    raise PortTaken(f"Port {port} on {bind} is taken. {hint}")


def is_free(bind: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family) as probe:
        # As the web server does: a closed connection's leftovers are no obstacle
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind, port))
        except OSError:
            return False
    return True
