"""What opens a door once stands in its address, and addresses of requests stand in logs."""

from __future__ import annotations

import io
import logging

import pytest
from django.test import Client

from accounts.first_admin import new_setup_url
from accounts.invitations import invite
from accounts.models import User
from hosting.daphne_server import LimitedCommand
from hosting.logs import ClosedLinks


def new_link(kind: str) -> str:
    if kind == "setup":
        return str(new_setup_url(""))
    return invite(User.objects.create_superuser("root@example.org"), role="member")[1]


@pytest.mark.parametrize("kind", ["invitation", "setup"])
def test_a_link_that_is_not_used_yet_is_not_logged(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As where cookies are blocked, and then by a program."""
    link = new_link(kind)
    (console,) = (one for one in logging.getLogger().handlers if one.name == "console")
    monkeypatch.setattr(console, "stream", lines := io.StringIO())
    browser = Client(enforce_csrf_checks=True)
    assert browser.post(link).status_code == 403
    assert browser.put(link, headers={"cookie": "hearth_csrf=x"}).status_code in (403, 405)
    assert f"Forbidden (CSRF cookie not set.): /{kind}/.../" in lines.getvalue()
    assert link.split("/")[2] not in lines.getvalue()


def test_other_lines_stay_as_they_are() -> None:
    line = logging.LogRecord("x", logging.INFO, "x", 1, "%s of %d%%: %s", ("a", 5, "/c/5"), None)
    assert ClosedLinks().filter(line)
    assert line.getMessage() == "a of 5%: /c/5"


def test_the_web_process_lists_no_addresses_unless_it_is_told_to() -> None:
    """However it is started: the supervisor is not the only way."""
    parser = LimitedCommand().parser
    assert parser.parse_args(["hosting.asgi:application"]).verbosity == 0
    assert parser.parse_args(["-v", "1", "hosting.asgi:application"]).verbosity == 1
