"""The address of who asks, where a proxy stands in front.

A proxy adds the address that it saw at the end of X-Forwarded-For; what is before may be the
client's own invention, and a new one for each guess at a password.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from django.conf import settings


class AddressBehindProxy:
    """Around the ASGI application. Only with HEARTH_HTTPS, when nobody but the proxy gets here."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        if settings.IS_HTTPS and (address := last_forwarded(scope["headers"])):
            scope = {**scope, "client": [address, 0]}
        return await self._application(scope, receive, send)


def last_forwarded(headers: list[tuple[bytes, bytes]]) -> str | None:
    """None where there is none, or no address."""
    told = [value for name, value in headers if name == b"x-forwarded-for"]
    last = b",".join(told).rpartition(b",")[2].decode("latin-1").strip()
    try:
        return str(ipaddress.ip_address(last.strip("[]")))
    except ValueError:
        return None
