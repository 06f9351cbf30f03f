"""What is kept of settings for a second, and what never is."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.kept import Kept
from accounts.keys import (
    ExpiredKey,
    InvalidKey,
    RevokedKey,
    check_api_key,
    create_api_key,
    revoke_api_key,
)
from accounts.models import ApiKey, User


@pytest.fixture(autouse=True)
def _kept_long(settings: Any) -> None:
    settings.SETTINGS_KEPT_SECONDS = 60


def test_what_was_read_is_not_read_again_until_its_time_is_over(settings: Any) -> None:
    kept: Kept[int] = Kept()
    values = iter(range(10))
    assert [kept.get("one", lambda: next(values)) for _ in range(3)] == [0, 0, 0]
    assert kept.get("other", lambda: next(values)) == 1
    settings.SETTINGS_KEPT_SECONDS = 0
    assert kept.get("one", lambda: next(values)) == 2


def test_a_refusal_is_not_kept(person: User) -> None:
    key, secret = create_api_key(user=person, name="laptop")
    User.objects.update(is_active=False)
    with pytest.raises(InvalidKey):
        check_api_key(secret)
    User.objects.update(is_active=True)
    assert check_api_key(secret) == key


def test_a_known_key_costs_no_query_and_a_revoked_one_is_known_no_more(
    person: User, django_assert_num_queries: Any
) -> None:
    key, secret = create_api_key(user=person, name="laptop")
    check_api_key(secret)
    with django_assert_num_queries(0):
        check_api_key(secret)
    revoke_api_key(key)
    with pytest.raises(RevokedKey):
        check_api_key(secret)


def test_a_known_key_still_expires(person: User) -> None:
    _, secret = create_api_key(user=person, name="laptop")
    known = check_api_key(secret)
    known.expires_at = known.created_at
    with pytest.raises(ExpiredKey):
        check_api_key(secret)
    assert ApiKey.objects.get().expires_at is None
