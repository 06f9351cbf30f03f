"""Who calls the API: the key in `Authorization: Bearer` or in `x-api-key`.

Imports nothing of rest_framework's views: REST_FRAMEWORK names this module while they load.
"""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from accounts.keys import KeyRefused, check_api_key, note_use
from accounts.models import ApiKey, User


class ApiKeyAuthentication(BaseAuthentication):
    """Sets request.user to the key's person and request.auth to the key."""

    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        secret = presented_secret(request)
        if secret is None:
            return None
        try:
            key = check_api_key(secret)
        except KeyRefused as refusal:
            raise AuthenticationFailed(type(refusal).__doc__, refusal.code) from None
        client = client_name(request.headers.get("User-Agent", ""))
        note_use(key, address=request.META.get("REMOTE_ADDR") or None, client=client)
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="hearth"'


def presented_secret(request: Request) -> str | None:
    """The text presented as a key; None when there is none."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    return request.headers.get("x-api-key", "").strip() or None


def client_name(user_agent: str) -> str:
    """The program behind a User-Agent, short: "OpenAI/Python 3.52.0", "curl/8.5.0", "Browser"."""
    if user_agent.startswith("Mozilla/"):
        return "Browser"
    printable = "".join(character for character in user_agent if character.isprintable())
    return printable.split(" (")[0][:100]
