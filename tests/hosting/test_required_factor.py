"""Sockets of administrators who must have a second factor, and do not yet."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.test import Client

from accounts.models import User
from hosting.actions.sessions import is_signed_in


async def test_no_socket_opens_for_who_must_first_add_one(
    transactional_db: None, settings: Any
) -> None:
    administrator = await sync_to_async(User.objects.create_superuser)("root@example.org")
    browser = Client()
    await sync_to_async(browser.force_login)(administrator)
    key = (await sync_to_async(lambda: browser.session)()).session_key
    assert await is_signed_in(administrator.pk, key)
    settings.REQUIRE_MFA = "administrators"
    assert not await is_signed_in(administrator.pk, key)
