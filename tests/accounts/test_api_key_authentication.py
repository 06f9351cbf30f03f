"""Who calls the API: either header, the right status, and a code that says what to do."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

from accounts.auth import ApiKeyAuthentication, client_name
from accounts.keys import create_api_key, revoke_api_key
from accounts.models import ApiKey, User


class WhoAmI(APIView):
    authentication_classes = [ApiKeyAuthentication]
    permission_classes = [IsAuthenticated]

    def get(self, request: Request) -> Response:
        return Response({"email": request.user.email, "key": request.auth.name})

    def get_exception_handler(self) -> Any:
        return lambda error, context: Response(
            {"code": error.get_codes(), "detail": str(error.detail)},
            status=error.status_code,
            headers={"WWW-Authenticate": getattr(error, "auth_header", "")},
        )


def call(**headers: str) -> Response:
    return WhoAmI.as_view()(APIRequestFactory().get("/", headers=headers))


@pytest.fixture
def secret(person: User) -> str:
    return create_api_key(user=person, name="laptop")[1]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_bearer_key_is_let_in(secret: str, scheme: str) -> None:
    response = call(Authorization=f"{scheme} {secret}")
    assert response.data == {"email": "ada@example.org", "key": "laptop"}


def test_a_key_in_x_api_key_is_let_in(secret: str) -> None:
    assert call(**{"x-api-key": secret}).status_code == 200


def test_without_a_key_the_answer_is_401_and_names_the_scheme(db: None) -> None:
    response = call()
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("wrong", ["nonsense", "sk-hearth-x", "sk-\u00e9", "a" * 5000])
def test_a_wrong_key_is_401_whatever_it_looks_like(db: None, wrong: str) -> None:
    response = call(Authorization=f"Bearer {wrong}")
    assert (response.status_code, response.data["code"]) == (401, "invalid_api_key")


def test_another_scheme_is_no_key(secret: str) -> None:
    assert call(Authorization=f"Basic {secret}").data["code"] == "not_authenticated"


def test_expired_and_revoked_keys_say_so(person: User) -> None:
    past = timezone.now() - datetime.timedelta(days=1)
    _, expired = create_api_key(user=person, name="old", expires_at=past)
    key, revoked = create_api_key(user=person, name="lost")
    revoke_api_key(key)
    for secret, word in ((expired, "expired"), (revoked, "revoked")):
        response = call(Authorization=f"Bearer {secret}")
        assert (response.status_code, response.data["code"]) == (401, "key_expired")
        assert word in response.data["detail"]


def test_a_switched_off_person_is_refused_without_a_reason(secret: str) -> None:
    User.objects.update(is_active=False)
    assert call(Authorization=f"Bearer {secret}").data["code"] == "invalid_api_key"


def test_the_call_is_noted_on_the_key(secret: str) -> None:
    call(Authorization=f"Bearer {secret}", **{"User-Agent": "OpenAI/Python 3.52.0"})
    key = ApiKey.objects.get()
    assert key.last_used_client == "OpenAI/Python 3.52.0"
    assert key.last_used_address == "127.0.0.1"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("OpenAI/Python 3.52.0", "OpenAI/Python 3.52.0"),
        ("codex_cli_rs/0.5 (Mac OS 15; arm64)", "codex_cli_rs/0.5"),
        ("Mozilla/5.0 (X11; Linux)", "Browser"),
        ("evil\x00\x1b[31m" + "x" * 300, "evil[31m" + "x" * 92),
        ("", ""),
    ],
)
def test_a_user_agent_becomes_a_short_printable_name(user_agent: str, name: str) -> None:
    assert client_name(user_agent) == name
