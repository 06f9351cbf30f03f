"""What a socket may see. Asked from many sockets at once, so in threads of their own."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.utils.module_loading import import_string

from accounts.second_factors import must_add_one
from hosting.actions.database_threads import in_database_thread
from hosting.models import Generation


@in_database_thread
def owns_generation(person_id: int, generation_id: str) -> bool:
    return Generation.objects.of(person_id).filter(pk=generation_id).exists()


@in_database_thread
def is_signed_in(person_id: int, session_key: str) -> bool:
    """Django's own check: the session is there, the password unchanged, the person active.

    An administrator who must first add a second factor is not in yet.
    """
    request = HttpRequest()
    request.session = import_string(f"{settings.SESSION_ENGINE}.SessionStore")(session_key)
    user = get_user(request)
    return user.pk == person_id and not must_add_one(user)
