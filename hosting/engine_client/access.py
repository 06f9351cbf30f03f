"""Where the rest of hosting gets its client and its hub, by the Redis that the settings name."""

from __future__ import annotations

import asyncio
import functools
import weakref

from django.conf import settings

from hosting.engine_client.client import EngineClient
from hosting.engine_client.hub import Hub

# A hub's connections belong to one event loop; tests and management commands have several.
_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Hub]] = (
    weakref.WeakKeyDictionary()
)


def get_client() -> EngineClient:
    """This process's client. May be used from any thread."""
    return _client_of(settings.REDIS_URL)


def hub() -> Hub:
    """The running event loop's hub."""
    hubs = _hubs.setdefault(asyncio.get_running_loop(), {})
    if settings.REDIS_URL not in hubs:
        hubs[settings.REDIS_URL] = Hub(
            settings.REDIS_URL, linger_seconds=settings.HUB_LINGER_SECONDS
        )
    return hubs[settings.REDIS_URL]


@functools.cache
def _client_of(redis_url: str) -> EngineClient:
    return EngineClient(redis_url)
