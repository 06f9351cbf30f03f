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


@pytest.mark.parametrize("days", ["0", "-1", "10000000"])
def test_a_number_of_days_that_cannot_be_is_refused(person: User, days: str) -> None:
    with pytest.raises(CommandError, match="--days"):
        run("ada@example.org", "nightly", f"--days={days}")
    assert not person.api_keys.exists()


@pytest.mark.parametrize("name", ["", "n" * 101])
def test_a_name_that_no_list_can_show_is_refused(person: User, name: str) -> None:
    with pytest.raises(CommandError, match="name"):
        run("ada@example.org", name)
    assert not person.api_keys.exists()


def test_nobody_of_that_email_is_said_plainly(db: None) -> None:
    with pytest.raises(CommandError, match="no active person"):
        run("nobody@example.org", "nightly")
