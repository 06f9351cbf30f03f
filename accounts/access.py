"""Ends what is under way of a key or a person whose access was taken away.

Pages and new requests look at the rows, and are refused from the commit on; sockets look every 4 s.
Settings say who ends open answers, for accounts knows no generations.
"""

from __future__ import annotations

from django.conf import settings
from django.utils.module_loading import import_string

from accounts.models import ApiKey, User


def end_use_of_key(key: ApiKey) -> None:
    import_string(settings.ACCOUNTS_ACCESS_ENDED)(api_key_id=key.pk)


def end_use_of_person(user: User) -> None:
    """Their sessions for good: who is switched on again signs in again. Their keys then work."""
    end_sessions(user)
    import_string(settings.ACCOUNTS_ACCESS_ENDED)(user_id=user.pk)


def end_sessions(user: User) -> None:
    user.session_epoch += 1
    user.save(update_fields=["session_epoch"])
