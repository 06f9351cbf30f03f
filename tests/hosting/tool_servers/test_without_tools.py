"""Who uses no tools pays nothing for them."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Policy, User
from hosting.models import Conversation, Message


@pytest.fixture
def long_conversation(person: User) -> Conversation:
    row = Conversation.objects.create(owner=person, title="Long")
    for number in range(6):
        role = ("user", "assistant")[number % 2]
        row.active_leaf = Message.objects.create(
            conversation=row, parent=row.active_leaf, role=role, content=str(number)
        )
    row.save()
    return row


def test_no_call_is_looked_for_where_there_are_none(
    page: Client, long_conversation: Conversation
) -> None:
    row = long_conversation
    Policy.objects.create(pk=1, may_read_conversations=True)
    root = Client()
    root.force_login(User.objects.create_superuser("root@example.org"))
    asked = [
        *((page, f"/chat/conversations/{row.pk}{rest}") for rest in ("", "/export?format=json")),
        (page, f"/chat/conversations/{row.pk}/export?format=markdown"),
        (root, f"/admin/conversations/{row.owner_id}/{row.pk}/"),
    ]
    for browser, path in asked:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert browser.get(path).status_code == 200
        assert not [one for one in queries if "hosting_toolcall" in one["sql"]], path
