"""What a status is called on the wire."""

from __future__ import annotations

import pytest
from twisted.web.http import RESPONSES

from hosting.daphne_server import name_every_status


def test_every_status_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RESPONSES, 404, b"as before")
    name_every_status()
    assert RESPONSES[422].startswith(b"Unprocessable")
    assert RESPONSES[429] == b"Too Many Requests"
    assert RESPONSES[404] == b"as before"
