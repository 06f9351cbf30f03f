"""Argon2 takes memory: however many passwords are sent at once, few are looked at together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher, check_password, make_password

from accounts.hashers import AT_ONCE
from hosting import settings as installed

PASSWORD = "correct horse 9"


@pytest.fixture(autouse=True)
def _as_installed(_quick: None, settings: Any) -> None:
    settings.PASSWORD_HASHERS = installed.PASSWORD_HASHERS


@pytest.mark.parametrize("way", ["encode", "verify"])
def test_few_are_looked_at_together(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    one_too_many = threading.Barrier(AT_ONCE + 1, timeout=0.3)
    stored = make_password(PASSWORD)

    def meet(*_: object) -> str:
        one_too_many.wait()
        return stored

    monkeypatch.setattr(Argon2PasswordHasher, way, meet)
    ask = make_password if way == "encode" else lambda text: check_password(text, stored)
    with ThreadPoolExecutor(AT_ONCE + 1) as threads:
        asked = [threads.submit(ask, PASSWORD) for _ in range(AT_ONCE + 1)]
    faults = [one.exception() for one in asked]
    assert all(isinstance(fault, threading.BrokenBarrierError) for fault in faults)


def test_a_password_that_django_has_stored_is_known() -> None:
    stored = Argon2PasswordHasher().encode(PASSWORD, "a" * 22)
    assert check_password(PASSWORD, stored)
    assert not check_password("wrong", stored)
    assert make_password(PASSWORD).startswith("argon2$argon2id$")
