"""manage.py create_api_key: the key alone on the last line, for scripts."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from accounts.keys import check_api_key
from accounts.models import User


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("create_api_key", *arguments, stdout=out)
    return out.getvalue()


def test_the_last_line_is_a_key_that_works(person: User) -> None:
    secret = run("ADA@example.org", "nightly").splitlines()[-1]
    key = check_api_key(secret)
    assert (key.user, key.name, key.expires_at) == (person, "nightly", None)


def test_a_key_can_be_made_to_expire(person: User) -> None:
    secret = run("ada@example.org", "nightly", "--days", "7").strip()
    assert check_api_key(secret).expires_at is not None


def test_nobody_of_that_email_is_said_plainly(db: None) -> None:
    with pytest.raises(CommandError, match="no active person"):
        run("nobody@example.org", "nightly")
