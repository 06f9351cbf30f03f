"""Encrypts what the database must keep in a form that can be read again.

The key is made from SECRET_KEY, so a copy of the database alone opens nothing. What an earlier
SECRET_KEY sealed opens while that key is among SECRET_KEY_FALLBACKS.
"""

from __future__ import annotations

import base64

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac


def seal(text: str) -> str:
    return _box().encrypt(text.encode()).decode()


def open_sealed(text: str) -> str:
    """Raises cryptography.fernet.InvalidToken for what no key of ours sealed."""
    return _box().decrypt(text.encode()).decode()


def _box() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([Fernet(_fernet_key(str(key))) for key in keys])


def _fernet_key(secret_key: str) -> bytes:
    digest = salted_hmac("accounts.sealed", "", secret=secret_key, algorithm="sha256").digest()
    return base64.urlsafe_b64encode(digest)
