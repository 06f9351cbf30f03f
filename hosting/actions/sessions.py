"""What a socket may see. Asked from many sockets at once, so not on Django's one shared thread."""

from __future__ import annotations

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.utils.module_loading import import_string

from hosting.models import Generation


def _owns_generation(person_id: int, generation_id: str) -> bool:
    return Generation.objects.of(person_id).filter(pk=generation_id).exists()


def _is_signed_in(person_id: int, session_key: str) -> bool:
    """Django's own check: the session is there, the password unchanged, the person active."""
    request = HttpRequest()
    request.session = import_string(f"{settings.SESSION_ENGINE}.SessionStore")(session_key)
    return get_user(request).pk == person_id


owns_generation = database_sync_to_async(_owns_generation, thread_sensitive=False)
is_signed_in = database_sync_to_async(_is_signed_in, thread_sensitive=False)
