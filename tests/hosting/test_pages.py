"""The chat page's frame, static files, headers that guard them, and the production check."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from accounts.models import User
from hosting import secret_key
from hosting.models import Conversation
from hosting.static_files import StaticFilesMiddleware
from tests.environment import clear_settings

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.django_db
def test_anybody_may_ask_whether_the_server_is_there() -> None:
    assert Client().head("/").status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/c/00000000-0000-4000-8000-000000000000"])
def test_the_page_is_for_those_who_signed_in(path: str) -> None:
    response = Client().get(path)
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/sign-in/")


def test_the_page_comes_with_a_csrf_token(page: Client, person: User) -> None:
    response = page.get("/")
    assert response.status_code == 200
    assert any(name.startswith("hearth_csrf") for name in response.cookies)


def test_pages_load_what_this_server_sends_only(page: Client) -> None:
    policy = page.get("/")["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/c/{0}", "/chat/conversations", "/chat/conversations/{0}"),
        *("/chat/conversations/{0}/export", "/chat/models", "/accounts/data/"),
        *("/accounts/data/export", "/accounts/keys/", "/usage/", "/usage/csv", "/nowhere"),
    ],
)
def test_what_one_was_shown_is_kept_in_no_cache(page: Client, person: User, path: str) -> None:
    conversation = Conversation.objects.create(owner=person)
    response = page.get(path.format(conversation.pk))
    assert response.status_code == (404 if path == "/nowhere" else 200)
    assert "no-store" in response["Cache-Control"]


@pytest.mark.parametrize("path", ["/accounts/sign-out/", "/accounts/sign-out/elsewhere/"])
def test_what_only_takes_a_form_says_so_when_it_is_opened(page: Client, path: str) -> None:
    response = page.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert response.status_code == 405 and "POST" in response["Allow"]
    assert "Back to the chat" in response.content.decode()
    assert not page.get(path, headers={"Accept": "application/json"}).content


@pytest.mark.django_db
def test_static_files_come_from_this_process() -> None:
    response = Client().get("/static/hosting/css/tokens.css")
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/css")
    assert "Last-Modified" in response


def test_a_static_file_that_has_changed_since_the_start_comes_whole(tmp_path: Path) -> None:
    style = tmp_path / "style.css"
    style.write_text("body { color: black; }")
    middleware = StaticFilesMiddleware(lambda request: HttpResponse(status=404))
    middleware.add_files(str(tmp_path), prefix="changed/")
    style.write_text("p {}")
    request = RequestFactory().get("/changed/style.css")
    response = middleware(request)
    assert isinstance(response, HttpResponse)
    assert response.content == b"p {}"
    assert response["Content-Length"] == "4"


@pytest.mark.django_db
def test_an_unknown_static_file_is_404() -> None:
    assert Client().get("/static/../hosting/settings.py").status_code == 404


def test_the_secret_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret_key"
    key = secret_key.load_or_create(path)
    assert len(key) >= 50
    assert secret_key.load_or_create(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["secret_key"]


def test_the_production_check_is_clean(tmp_path: Path) -> None:
    environment = {
        **clear_settings(dict(os.environ)),
        "HEARTH_DATA_DIR": str(tmp_path),
        "HEARTH_HTTPS": "1",
        "HEARTH_ALLOWED_HOSTS": "hearth.example.org",
    }
    check = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert check.returncode == 0, check.stderr


@pytest.mark.django_db
def test_pages_and_calls_carry_the_headers_that_protect_them(client: Client) -> None:
    """Our subclasses of Django's middleware are not what `check --deploy` looks for."""
    for path in ("/accounts/sign-in/", "/v1/models"):
        response = client.get(path)
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Referrer-Policy"] == "same-origin"
        assert response["X-Frame-Options"] == "DENY"
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/accounts/sign-in/", {"username": "a", "password": "b"}).status_code == 403


def test_a_page_that_is_too_old_says_what_to_do(db: None) -> None:
    response = Client(enforce_csrf_checks=True).post("/accounts/sign-in/", {})
    assert response.status_code == 403
    assert "reload the page" in response.content.decode()
