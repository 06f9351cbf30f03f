"""Lets websockets in from pages of this origin only: another port of the machine is another one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.utils.http import is_same_domain

_USUAL_PORTS = {"http": ":80", "https": ":443"}


class OwnOriginOnly:
    """Inside of Channels' own check, which knows hosts and no ports."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin-1").lower() for name, value in scope["headers"]}
        is_own = is_own_origin(headers.get(b"origin", ""), headers.get(b"host", ""))
        inner = self._application if is_own else WebsocketDenier()
        return await inner(scope, receive, send)


def is_own_origin(origin: str, host: str) -> bool:
    """As Django's CSRF check has it: where the page was asked for, or a name that is trusted."""
    parts = urlsplit(origin)
    usual_port = _USUAL_PORTS.get(parts.scheme)
    if usual_port is None:
        return False
    if parts.netloc.removesuffix(usual_port) == host.removesuffix(usual_port):
        return True
    trusted = [urlsplit(one.replace("*", "")) for one in settings.CSRF_TRUSTED_ORIGINS]
    return any(
        parts.scheme == one.scheme and is_same_domain(parts.netloc, one.netloc) for one in trusted
    )
