"""A conversation gets its title after the first answer, at the lowest priority."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from accounts.models import UsageRecord
from engine import wire
from hosting.actions.settling import settle_generation
from hosting.actions.titles import clean_title
from hosting.models import Conversation, Generation
from hosting.tasks import write_title
from tests.engine.transport.rig import Rig, emit
from tests.hosting.scripted_engine import delta, finished

pytestmark = pytest.mark.usefixtures("model")


def answer(rig: Rig, generation_id: str, text: str) -> None:
    rig.admit_all()
    engine = rig.engine()
    engine.pull({"demo": 8})
    emit(engine, generation_id, delta(text), finished())
    assert settle_generation(generation_id)


@pytest.fixture
def conversation(page: Client, rig: Rig) -> Conversation:
    """With one answered question."""
    body = {"content": "What is warm?" + "?" * 600}
    sent = page.post("/chat/messages", body, content_type="application/json").json()
    answer(rig, sent["answer"]["generation"]["id"], "A hearth.")
    return Conversation.objects.get()


def enqueued(rig: Rig) -> list[Any]:
    messages = rig.redis.lrange("hearth-celery:celery", 0, -1)
    return [json.loads(one)["headers"]["task"] for one in messages]


def test_the_first_answer_asks_celery_for_a_title(rig: Rig, conversation: Conversation) -> None:
    assert enqueued(rig) == ["hosting.tasks.write_title"]


def test_the_title_is_asked_for_in_the_agreed_words(rig: Rig, conversation: Conversation) -> None:
    write_title(str(conversation.pk))
    sent = wire.decode(Generation.objects.get(kind="title").request)
    question = ("What is warm?" + "?" * 600)[:500]
    assert sent.messages == (
        {
            "role": "system",
            "content": "You write titles. Answer with a title of at most six words for the "
            "conversation, and nothing else.",
        },
        {"role": "user", "content": f"User: {question}\nAssistant: A hearth."},
    )
    assert (sent.priority, sent.max_tokens) == (wire.Priority.BATCH, 16)
    assert sent.template_options == {"enable_thinking": False}


def test_the_models_words_become_the_title(rig: Rig, conversation: Conversation) -> None:
    write_title(str(conversation.pk))
    answer(rig, str(Generation.objects.get(kind="title").pk), '"Warm Stones."\n')
    conversation.refresh_from_db()
    assert conversation.title == "Warm Stones"
    assert UsageRecord.objects.count() == 2


def test_a_title_given_meanwhile_stays(rig: Rig, conversation: Conversation) -> None:
    write_title(str(conversation.pk))
    Conversation.objects.update(title="Mine", is_title_set_by_person=True)
    answer(rig, str(Generation.objects.get(kind="title").pk), "Theirs")
    conversation.refresh_from_db()
    assert conversation.title == "Mine"


def test_a_conversation_with_a_title_is_not_asked_about(
    rig: Rig, conversation: Conversation
) -> None:
    Conversation.objects.update(title="Here")
    write_title(str(conversation.pk))
    assert not Generation.objects.filter(kind="title").exists()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Warm stones", "Warm stones"),
        ("\n **Title: Warm stones.**\nMore", "Warm stones"),
        ("“Warm”", "Warm"),
        ("", ""),
        ('""', ""),
        ("x" * 200, "x" * 80),
    ],
)
def test_a_title_is_cleaned(text: str, title: str) -> None:
    assert clean_title(text) == title
