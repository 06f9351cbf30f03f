"""The list of conversations and one of them: read, change, search, export, delete."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from hosting.models import Conversation, Generation, HostedModel, Message

pytestmark = pytest.mark.usefixtures("model")


@pytest.fixture
def conversation(person: User) -> Conversation:
    made = Conversation.objects.create(owner=person, title="Stones", model_name="demo")
    question = Message.objects.create(conversation=made, role="user", content="What is warm?")
    answer = Message.objects.create(
        conversation=made, parent=question, role="assistant", content="A hearth is warm."
    )
    made.active_leaf = answer
    made.save()
    return made


def patch(page: Client, conversation: Conversation, **changes: Any) -> Any:
    url = f"/chat/conversations/{conversation.pk}"
    return page.patch(url, changes, content_type="application/json")


def listed(page: Client, **query: str) -> list[str]:
    body = page.get("/chat/conversations", query).json()
    return [one["title"] for one in body["conversations"]]


def test_a_conversation_comes_with_all_its_messages(
    page: Client, conversation: Conversation
) -> None:
    body = page.get(f"/chat/conversations/{conversation.pk}").json()
    question, answer = body["messages"]
    assert body["conversation"]["active_leaf"] == answer["id"]
    assert (question["parent"], answer["parent"]) == (None, question["id"])
    assert answer["content"] == "A hearth is warm."
    assert answer["generation"] is None


def test_a_message_tells_how_its_generation_went(
    page: Client, person: User, conversation: Conversation
) -> None:
    Generation.objects.create(
        user=person, kind="chat", message=conversation.active_leaf, conversation=conversation,
        model_name="demo", tenant="t", priority="interactive", state="failed",
        error_code="engine_error", error_detail="It broke.", prompt_tokens=3, ttft_seconds=0.5,
    )  # fmt: skip
    answer = page.get(f"/chat/conversations/{conversation.pk}").json()["messages"][1]
    assert answer["model"] == "demo"
    assert answer["generation"]["error"] == {"code": "engine_error", "detail": "It broke."}
    assert answer["generation"]["usage"]["prompt_tokens"] == 3
    assert answer["generation"]["timings"]["ttft_seconds"] == 0.5


def test_the_list_is_newest_first_and_pinned_on_top(
    page: Client, person: User, conversation: Conversation
) -> None:
    long_ago = timezone.now() - datetime.timedelta(days=9)
    Conversation.objects.create(owner=person, title="Old", updated_at=long_ago)
    Conversation.objects.create(owner=person, title="Pin", updated_at=long_ago, is_pinned=True)
    assert listed(page) == ["Pin", "Stones", "Old"]


def test_the_list_goes_on_where_it_ended(page: Client, person: User) -> None:
    now = timezone.now()
    for number in range(60):
        Conversation.objects.create(owner=person, title=str(number), updated_at=now)
    first = page.get("/chat/conversations").json()
    second = page.get("/chat/conversations", {"before": first["next"]}).json()
    titles = {one["title"] for one in first["conversations"] + second["conversations"]}
    assert (len(first["conversations"]), len(titles)) == (50, 60)
    assert second["next"] is None


@pytest.mark.parametrize(
    "moment",
    ["", "soon", "2026-11-27T10:00:00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"],
)
def test_what_is_no_place_in_the_list_is_refused(page: Client, moment: str) -> None:
    answer = page.get("/chat/conversations", {"before": f"{moment}~{uuid.UUID(int=0)}"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "before")


def test_search_looks_into_titles_and_messages(
    page: Client, person: User, conversation: Conversation
) -> None:
    Conversation.objects.create(owner=person, title="About bread")
    assert listed(page, q="HEARTH") == ["Stones"]
    assert listed(page, q="bread") == ["About bread"]
    assert listed(page, q="nothing like it") == []


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("We bake zwieback", "We bake zwieback"),
        ("Grandmother baked zwieback", "…baked zwieback"),
        ("Fourteen chars zwieback", "…chars zwieback"),
        ("A loaf,\nthen zwieback", "A loaf,\nthen zwieback"),
        ("Today's loaf\nand then zwieback", "…and then zwieback"),
        ("Bread of all days zwieback", "…of all days zwieback"),
        ("Kartoffelknoblauchzwieback", "…ffelknoblauchzwieback"),
    ],
)
def test_what_is_shown_of_a_message_begins_with_a_word(
    page: Client, conversation: Conversation, said: str, shown: str
) -> None:
    Message.objects.create(conversation=conversation, role="user", content=said)
    (found,) = page.get("/chat/conversations", {"q": "ZWIEBACK"}).json()["conversations"]
    assert found["snippet"] == shown


def test_what_is_found_in_a_message_is_shown_around_it(page: Client, person: User) -> None:
    long = Conversation.objects.create(owner=person, title="Long")
    for text in ("Nothing here", f"{'before ' * 50}Zwieback{' after' * 50}", "zwieback again"):
        Message.objects.create(conversation=long, role="user", content=text)
    Conversation.objects.create(owner=person, title="Of zwieback")
    found = page.get("/chat/conversations", {"q": "zwieback"}).json()["conversations"]
    snippets = {one["title"]: one["snippet"] for one in found}
    assert snippets["Long"].startswith("…before Zwieback after after ")
    assert len(snippets["Long"]) < 130
    assert snippets["Of zwieback"] is None
    plain = page.get("/chat/conversations").json()["conversations"]
    assert {one["snippet"] for one in plain} == {None}


def test_the_list_tells_what_is_being_answered(
    page: Client, person: User, conversation: Conversation
) -> None:
    Generation.objects.create(
        user=person, kind="chat", conversation=conversation, model_name="demo", tenant="t",
        priority="interactive",
    )  # fmt: skip
    assert page.get("/chat/conversations").json()["conversations"][0]["is_generating"] is True


def test_a_new_title_stays_the_persons(page: Client, conversation: Conversation) -> None:
    body = patch(page, conversation, title="  My \n stones ", is_pinned=True).json()
    conversation.refresh_from_db()
    assert body["conversation"]["title"] == conversation.title == "My stones"
    assert conversation.is_title_set_by_person
    assert conversation.is_pinned


def test_the_shown_branch_can_be_changed(page: Client, conversation: Conversation) -> None:
    question = conversation.messages.get(role="user")
    assert patch(page, conversation, active_leaf=str(question.pk)).status_code == 200
    conversation.refresh_from_db()
    assert conversation.active_leaf == question


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"title": " "}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"title": 5}, "title"),
        ({"is_pinned": "yes"}, "is_pinned"),
        ({"active_leaf": "x"}, "active_leaf"),
        ({"active_leaf": "00000000-0000-4000-8000-000000000000"}, "active_leaf"),
        ({"model": "gone"}, "model"),
        ({"system_prompt": "a\x00b"}, "system_prompt"),
    ],
)
def test_a_bad_change_is_named(
    page: Client, conversation: Conversation, changes: dict[str, Any], field: str
) -> None:
    response = patch(page, conversation, **changes)
    assert response.status_code in (400, 404)
    assert response.json()["error"]["field"] == field


def test_an_export_has_all_branches_in_json(page: Client, conversation: Conversation) -> None:
    response = page.get(f"/chat/conversations/{conversation.pk}/export", {"format": "json"})
    assert response.json()["title"] == "Stones"
    assert len(response.json()["messages"]) == 2
    assert "attachment" in response["Content-Disposition"]


def test_an_export_reads_well_in_markdown(page: Client, conversation: Conversation) -> None:
    response = page.get(f"/chat/conversations/{conversation.pk}/export", {"format": "markdown"})
    text = response.content.decode()
    assert text.startswith("# Stones\n\n## You\n\nWhat is warm?\n\n## Answer\n\nA hearth is warm.")


def test_a_deleted_conversation_is_gone_and_its_answer_stopped(
    page: Client, person: User, conversation: Conversation
) -> None:
    running = Generation.objects.create(
        user=person, kind="chat", conversation=conversation, message=conversation.active_leaf,
        model_name="demo", tenant="t", priority="interactive",
    )  # fmt: skip
    assert page.delete(f"/chat/conversations/{conversation.pk}").status_code == 204
    running.refresh_from_db()
    assert running.is_cancel_requested
    assert not Message.objects.exists()
    assert listed(page) == []


def test_the_models_come_with_what_they_can(page: Client, model: HostedModel, engine: Any) -> None:
    HostedModel.objects.create(name="loaded-model", supports_tools=True)
    HostedModel.objects.create(name="coming", state=HostedModel.State.FETCHING)
    models = {one["name"]: one for one in page.get("/chat/models").json()["models"]}
    assert models["demo"]["is_default"]
    assert models["loaded-model"]["supports_tools"]
    states = {name: one["state"] for name, one in models.items()}
    assert states == {"demo": "cold", "loaded-model": "loaded", "coming": "fetching"}
