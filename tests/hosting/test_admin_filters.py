"""Addresses of the administration's lists that filter by what no page offers."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.models import User
from hosting.models import Conversation, Generation, Message

LIST = "/admin/hosting/generation/"


@pytest.fixture
def viewers_page(transactional_db: None) -> Client:
    viewer = User.objects.create_user("viewer@example.org", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename="view_generation"))
    browser = Client()
    browser.force_login(viewer)
    return browser


@pytest.fixture
def asked(person: User) -> Generation:
    """Ada's, still waiting: its row has what she asked."""
    conversation = Conversation.objects.create(owner=person, title="the secret")
    message = Message.objects.create(conversation=conversation, role="user", content="the secret")
    return Generation.objects.create(
        user=person, kind="chat", conversation=conversation, message=message, model_name="demo",
        tenant="t", priority="interactive", request='{"messages": "the secret"}',
    )  # fmt: skip


@pytest.mark.parametrize(
    "column",
    [
        *("request", "request__contains", "request__startswith", "request__regex"),
        *("message__content__contains", "conversation__title__contains"),
        *("user__password__startswith", "api_key__key_hash__startswith"),
    ],
)
def test_what_was_said_is_not_found_out_by_trying(
    viewers_page: Client, asked: Generation, column: str
) -> None:
    assert viewers_page.get(LIST, {column: "secret"}).status_code == 400


def test_the_filters_of_the_page_work(viewers_page: Client, asked: Generation) -> None:
    for filters, is_found in (({"state__exact": "queued"}, True), ({"kind__exact": "api"}, False)):
        page = viewers_page.get(LIST, filters)
        assert page.status_code == 200
        assert (str(asked.pk) in page.content.decode()) == is_found
