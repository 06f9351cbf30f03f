"""Which pages may open a socket here."""

from __future__ import annotations

from typing import Any

import pytest

from hosting.own_origin import is_own_origin


@pytest.mark.parametrize(
    ("origin", "host", "is_own"),
    [
        ("http://hearth.example:8000", "hearth.example:8000", True),
        ("https://hearth.example", "hearth.example", True),
        ("https://hearth.example", "hearth.example:443", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://hearth.example:8001", "hearth.example:8000", False),
        ("http://hearth.example", "hearth.example:8000", False),
        ("https://evil.example", "hearth.example", False),
        ("https://hearth.example.evil.example", "hearth.example", False),
        ("null", "hearth.example", False),
        ("", "", False),
    ],
)
def test_only_pages_of_the_same_host_and_port(origin: str, host: str, is_own: bool) -> None:
    assert is_own_origin(origin, host) is is_own


def test_behind_a_proxy_that_names_another_host_the_public_name_counts(settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://hearth.example", "https://*.local"]
    assert is_own_origin("https://hearth.example", "127.0.0.1:8000")
    assert is_own_origin("https://mac.local", "127.0.0.1:8000")
    assert not is_own_origin("http://hearth.example", "127.0.0.1:8000")
    assert not is_own_origin("https://hearth.example:8443", "127.0.0.1:8000")
