"""Sessions and keys tell nothing to who has a copy of the database, or a clock."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from accounts.keys import (
    CHECKSUM_LENGTH,
    PREFIX_LENGTH,
    InvalidKey,
    check_api_key,
    create_api_key,
    with_checksum,
)
from accounts.models import User
from accounts.session_store import SessionStore
from tests.accounts.conftest import signed_in

ROUNDS = 150
# Of two alike, one is quicker in half of all pairs; by chance in 30 of 100 once in a billion runs
FAIR = (0.3, 0.7)


def test_the_database_keeps_no_key_of_a_session(page: Client) -> None:
    cookie = page.session.session_key
    stored = Session.objects.get().session_key
    assert cookie and stored != cookie
    assert SessionStore(stored).load() == {}
    assert SessionStore(cookie).load()


def test_a_session_ends_with_the_sign_out(page: Client) -> None:
    page.post("/accounts/sign-out/")
    assert not Session.objects.exists()


def test_signing_out_everywhere_else_leaves_this_browser_in(page: Client, person: User) -> None:
    elsewhere = signed_in(person)
    assert elsewhere.get("/accounts/keys/").status_code == 200
    page.post("/accounts/sign-out/elsewhere/")
    assert elsewhere.get("/accounts/keys/").status_code == 302
    assert page.get("/accounts/keys/").status_code == 200


def test_a_wrong_key_takes_as_long_whatever_it_shares(person: User) -> None:
    _, secret = create_api_key(user=person, name="script")
    nothing_shared, nearly_all = wrong_keys(secret)
    assert FAIR[0] < quicker(lambda: refused(nothing_shared), lambda: refused(nearly_all)) < FAIR[1]


def test_that_test_would_see_a_leak(person: User) -> None:
    _, secret = create_api_key(user=person, name="script")
    nothing_shared, nearly_all = wrong_keys(secret)
    share = quicker(lambda: leaking(nothing_shared, secret), lambda: leaking(nearly_all, secret))
    assert share > FAIR[1]


def wrong_keys(secret: str) -> tuple[str, str]:
    """Both well formed and of a prefix that exists: the first shares no further character."""
    prefix, body = secret[:PREFIX_LENGTH], secret[PREFIX_LENGTH:-CHECKSUM_LENGTH]
    other = "".join("b" if character == "a" else "a" for character in body)
    return with_checksum(prefix + other), with_checksum(prefix + body[:-1] + other[-1])


def refused(key: str) -> None:
    with pytest.raises(InvalidKey):
        check_api_key(key)


def leaking(key: str, secret: str) -> None:
    """As a check that stops at the first difference, each character as costly as some hashes."""
    refused(key)
    for one, other in zip(key, secret, strict=True):
        if one != other:
            return
        sum(range(5000))


def quicker(one: Callable[[], None], other: Callable[[], None]) -> float:
    """In which share of all pairs `one` was quicker. Taken in turns, so that load hits both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, found in zip((one, other), times, strict=True):
            started = time.perf_counter()
            call()
            found.append(time.perf_counter() - started)
    pairs = itertools.product(*times)
    return sum(first < second for first, second in pairs) / ROUNDS**2
