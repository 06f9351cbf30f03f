"""Tells a person's open pages that something changed. Lossy: token text never goes here."""

from __future__ import annotations

import logging
import uuid

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

logger = logging.getLogger(__name__)


def group_of(person_id: int) -> str:
    """The Channels group of all sockets of one person."""
    return f"person-{person_id}"


def hint(*, person_id: int, conversation_id: uuid.UUID) -> None:
    message = {"type": "conversation.hint", "conversation": str(conversation_id)}
    try:
        async_to_sync(get_channel_layer().group_send)(group_of(person_id), message)
    except Exception:
        # The layer raises whatever its connection raises, and a page without hints still works
        logger.warning("hint lost", exc_info=True)
