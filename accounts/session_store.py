"""Sessions in the database under a hash of their key, so that a copy of it signs nobody in.

The key has 165 random bits: a plain hash is enough.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.sessions.backends import db
from django.utils import timezone


class SessionStore(db.SessionStore):
    """Django's own; rows are found and written by the hash."""

    def _get_session_from_db(self) -> Any:
        return self._found(self._rows(self.session_key).first())

    async def _aget_session_from_db(self) -> Any:
        return self._found(await self._rows(self.session_key).afirst())

    def _rows(self, session_key: str | None) -> Any:
        alive = self.model.objects.filter(expire_date__gt=timezone.now())
        return alive.filter(session_key=hashed(session_key or ""))

    def _found(self, row: Any) -> Any:
        if row is None:
            self._session_key = None
        return row

    def exists(self, session_key: str) -> bool:
        return super().exists(hashed(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(hashed(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        row = super().create_model_instance(data)
        row.session_key = hashed(row.session_key)
        return row

    async def acreate_model_instance(self, data: dict[str, Any]) -> Any:
        row = await super().acreate_model_instance(data)
        row.session_key = hashed(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(hashed(key))

    async def adelete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            await super().adelete(hashed(key))


def hashed(session_key: str) -> str:
    """As long as the column allows."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:40]
