"""Redis and the engines forget what is deleted from the rows."""

from __future__ import annotations

import logging

from hosting.engine_client import EngineUnavailable, get_client

logger = logging.getLogger(__name__)


def forget(tenant: str, request_ids: list[str]) -> None:
    """What is kept of this tenant's prompts alone, and what was said in these requests."""
    try:
        get_client().forget_tenant(tenant)
    except EngineUnavailable:
        logger.warning("the engine could not be told to forget; its caches expire")
    forget_events(request_ids)


def forget_events(request_ids: list[str]) -> None:
    """What was said in these requests, which have ended."""
    try:
        get_client().forget_events(request_ids)
    except EngineUnavailable:
        logger.warning("Redis could not be told to forget; its streams expire")
