"""People: the e-mail is the name, whatever its case."""

from __future__ import annotations

import pytest
from django.contrib.auth import authenticate
from django.db import IntegrityError

from accounts.models import User
from tests.accounts.conftest import PASSWORD


def test_an_email_is_stored_and_found_in_lower_case(person: User) -> None:
    other = User.objects.create_user("Grace@Example.ORG", name="Grace")
    assert other.email == "grace@example.org"
    assert User.objects.get(email="GRACE@example.org") == other


def test_two_people_cannot_share_an_email_in_different_case(person: User) -> None:
    with pytest.raises(IntegrityError):
        User(email="ADA@EXAMPLE.ORG").save()


def test_signing_in_does_not_care_for_the_case_of_the_email(person: User) -> None:
    assert authenticate(username="Ada@Example.org", password=PASSWORD) == person


def test_a_person_is_called_by_name_or_else_by_email(person: User) -> None:
    assert (str(person), person.get_short_name()) == ("Ada Park", "Ada")
    nameless = User(email="zed@example.org")
    assert (str(nameless), nameless.get_short_name()) == ("zed@example.org", "zed")
