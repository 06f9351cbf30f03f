"""How often one API request asks the database: each query is time for everybody who waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.backends.utils import CursorWrapper

from tests.hosting.conftest import KeyedClient
from tests.hosting.scripted_engine import ScriptedEngine

BODY = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
_FRAME = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement of every thread, but for those that only frame a transaction."""
    statements: list[str] = []

    def noting(execute: Callable[..., Any]) -> Callable[..., Any]:
        def note(cursor: Any, sql: str, params: Any = None) -> Any:
            if not sql.startswith(_FRAME):
                statements.append(sql)
            return execute(cursor, sql, params)

        return note

    for name in ("execute", "executemany"):
        monkeypatch.setattr(CursorWrapper, name, noting(getattr(CursorWrapper, name)))
    return statements


async def test_a_chat_request_asks_three_times(
    api: KeyedClient, model: Any, engine: ScriptedEngine, asked: list[str], settings: Any
) -> None:
    """Once its key, its limits and the model are known: a lock, what is used, the new row."""
    settings.SETTINGS_KEPT_SECONDS = 60
    for _ in range(2):
        asked.clear()
        response = await api.post("/v1/chat/completions", BODY, content_type="application/json")
        assert response.status_code == 200
    assert len(asked) == 3, "\n".join(asked)
