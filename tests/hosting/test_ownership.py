"""Every route that names an object, asked by another person: not found, and nothing changed."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern

from accounts.models import User
from hosting.chat.urls import urlpatterns
from hosting.models import Conversation, Generation, HostedModel, Image, Message, ToolCall

ROUTES = [
    ("GET", "chat/conversations/{conversation}"),
    ("PATCH", "chat/conversations/{conversation}"),
    ("DELETE", "chat/conversations/{conversation}"),
    ("GET", "chat/conversations/{conversation}/export"),
    ("POST", "chat/messages/{message}/regenerate"),
    ("POST", "chat/generations/{generation}/cancel"),
    ("POST", "chat/messages/{message}/stop"),
    ("POST", "chat/messages/{message}/go-on"),
    ("POST", "chat/tool-calls/{call}/decide"),
    ("GET", "chat/images/{image}"),
]
OPEN_TO_ALL = {"c/{conversation}"}  # the page of any id; what it fetches is then refused


@pytest.fixture
def ids(person: User, model: HostedModel) -> dict[str, uuid.UUID]:
    """Ada's."""
    conversation = Conversation.objects.create(owner=person, title="Ada's")
    question = Message.objects.create(conversation=conversation, role="user", content="Hi")
    answer = Message.objects.create(conversation=conversation, role="assistant", parent=question)
    generation = Generation.objects.create(
        user=person, kind="chat", conversation=conversation, message=answer, model_name="demo",
        tenant="t", priority="interactive",
    )  # fmt: skip
    calls = Message.objects.create(conversation=conversation, role="tool", parent=answer)
    return {
        "conversation": conversation.pk,
        "message": answer.pk,
        "call": ToolCall.objects.create(message=calls, number=0).pk,
        "generation": generation.pk,
        "image": Image.objects.create(owner=person, media_type="image/png", num_bytes=1).pk,
    }


def ask(browser: Client, method: str, route: str, ids: dict[str, uuid.UUID]) -> Any:
    body = {"title": "Eve's"} if method == "PATCH" else {}
    url = "/" + route.format(**ids)
    return browser.generic(method, url, data=str(body).replace("'", '"'))


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_another_persons_objects_are_not_found(
    strangers_page: Client, ids: dict[str, uuid.UUID], method: str, route: str
) -> None:
    assert ask(strangers_page, method, route, ids).status_code == 404
    generation = Generation.objects.get()
    assert Conversation.objects.get().title == "Ada's"
    assert ToolCall.objects.get().state == "waiting"
    assert not generation.is_cancel_requested


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_nobody_in_particular_is_asked_to_sign_in(
    ids: dict[str, uuid.UUID], method: str, route: str
) -> None:
    assert ask(Client(), method, route, ids).status_code == 401


def test_a_message_cannot_be_put_into_another_persons_conversation(
    strangers_page: Client, ids: dict[str, uuid.UUID]
) -> None:
    body = {"content": "Hi", "conversation": str(ids["conversation"])}
    response = strangers_page.post("/chat/messages", body, content_type="application/json")
    assert response.status_code == 404
    assert Message.objects.count() == 3


def test_a_message_cannot_be_put_under_another_persons_answer(
    strangers_page: Client, ids: dict[str, uuid.UUID]
) -> None:
    body = {"content": "Hi", "parent": str(ids["message"])}
    response = strangers_page.post("/chat/messages", body, content_type="application/json")
    assert response.status_code == 400
    assert Message.objects.count() == 3


def test_lists_and_searches_show_ones_own_only(
    strangers_page: Client, ids: dict[str, uuid.UUID]
) -> None:
    for query in ({}, {"q": "Ada"}, {"q": "Hi"}):
        body = strangers_page.get("/chat/conversations", query).json()
        assert body["conversations"] == []


def test_every_route_with_an_id_is_tried_above() -> None:
    tried = {route for _, route in ROUTES} | OPEN_TO_ALL
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        route = str(pattern.pattern)
        if "<" in route:
            plain = route.replace("<uuid:", "{").replace("_id>", "}")
            assert plain in tried, f"add {route} to ROUTES"
