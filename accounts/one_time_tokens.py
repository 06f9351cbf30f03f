"""The secrets in links that work once. The database keeps a hash, which opens nothing."""

from __future__ import annotations

import hashlib
import secrets


def new_token() -> str:
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """Without a salt: the token is as long as the hash, so nobody can guess it."""
    return hashlib.sha256(token.encode()).hexdigest()
