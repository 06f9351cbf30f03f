"""Messages sent, answers regenerated and stopped: rows, prompts, refusals."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from accounts.models import Quota, User
from engine import wire
from hosting.actions.conversations import delete_conversation, get_message
from hosting.actions.refusals import Refusal
from hosting.actions.settling import settle_generation
from hosting.actions.turns import TurnOptions, regenerate
from hosting.models import Conversation, Generation, Message
from tests.engine.transport.rig import Rig, emit
from tests.hosting.failing_database import full_disk
from tests.hosting.scripted_engine import delta, finished

pytestmark = pytest.mark.usefixtures("model")


def send(page: Client, content: str = "Hello", **fields: Any) -> Any:
    body = {"content": content, **fields}
    return page.post("/chat/messages", body, content_type="application/json")


def end(rig: Rig, generation_id: str, text: str) -> None:
    """Let a scripted engine answer. No ledger has stored it yet."""
    rig.admit_all()
    engine = rig.engine()
    engine.pull({"demo": 8})
    emit(engine, generation_id, delta(text), finished())


def settle(rig: Rig, generation_id: str, text: str = "Warm.") -> None:
    end(rig, generation_id, text)
    assert settle_generation(generation_id)


def answered(page: Client, rig: Rig, text: str = "Warm.", **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = send(page, **fields).json()
    settle(rig, body["answer"]["generation"]["id"], text)
    return body


def prompt_of(generation_id: str) -> Any:
    return wire.decode(Generation.objects.get(pk=generation_id).request).messages


def test_a_first_message_starts_a_conversation(page: Client, rig: Rig) -> None:
    response = send(page, system_prompt="Be kind.")
    body = response.json()
    generation = body["answer"]["generation"]
    assert response.status_code == 201
    assert body["answer"]["parent"] == body["user_message"]["id"]
    assert body["conversation"]["active_leaf"] == body["answer"]["id"]
    assert generation["state"] == "queued"
    assert rig.client.has_request(generation["id"])
    assert prompt_of(generation["id"]) == (
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
    )


def test_a_message_that_cannot_be_stored_is_503_and_nothing_starts(page: Client, rig: Rig) -> None:
    with full_disk():
        response = send(page)
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "database_unavailable"
    assert not Conversation.objects.exists()


def test_a_message_that_is_sent_again_is_stored_and_answered_once(page: Client, rig: Rig) -> None:
    name = str(uuid.uuid4())
    first, again = (send(page, id=name).json() for _ in range(2))
    assert first["user_message"]["id"] == name
    assert again == first
    assert Generation.objects.count() == Conversation.objects.count() == 1
    settle(rig, first["answer"]["generation"]["id"], "Warm.")
    assert send(page, id=name).json()["answer"]["content"] == "Warm."


def test_the_same_words_under_another_id_are_another_message(page: Client, rig: Rig) -> None:
    ids = [send(page, id=str(uuid.uuid4())).json()["conversation"]["id"] for _ in range(2)]
    assert len(set(ids)) == 2


@pytest.mark.parametrize("whose", ["other words", "an answer", "another person"])
def test_an_id_that_belongs_to_another_message_is_refused(
    page: Client, rig: Rig, whose: str
) -> None:
    sent = send(page).json()
    name, sender = sent["user_message"]["id"], page
    if whose == "an answer":  # of the same words, which goes on
        name = sent["answer"]["id"]
        settle(rig, sent["answer"]["generation"]["id"], "Hello")
        send(page, conversation=sent["conversation"]["id"], parent=name)
    if whose == "another person":
        sender = Client()
        sender.force_login(User.objects.create_user("bob@example.org"))
    num_before = Generation.objects.count()
    response = send(sender, "Hello!" if whose == "other words" else "Hello", id=name)
    assert response.status_code == 409
    assert response.json()["error"] == {
        "code": "id_taken",
        "message": "Another message has this id. Send each with its own.",
        "field": "id",
    }
    assert Generation.objects.count() == num_before


def test_an_id_is_a_uuid(page: Client) -> None:
    response = send(page, id="mine")
    assert response.status_code == 400
    assert response.json()["error"]["field"] == "id"


def test_chat_waits_before_nobody_else(page: Client, rig: Rig) -> None:
    body = send(page, options={"temperature": 0, "max_tokens": 7, "enable_thinking": True}).json()
    sent = wire.decode(Generation.objects.get(pk=body["answer"]["generation"]["id"]).request)
    assert sent.priority == wire.Priority.INTERACTIVE
    assert (sent.sampling.temperature, sent.max_tokens) == (0, 7)
    assert sent.template_options == {"enable_thinking": True}


def test_a_settled_answer_is_in_the_conversation(page: Client, rig: Rig) -> None:
    body = answered(page, rig)
    url = f"/chat/conversations/{body['conversation']['id']}"
    answer = page.get(url).json()["messages"][1]
    assert answer["content"] == "Warm."
    assert answer["generation"]["state"] == "done"
    assert answer["generation"]["usage"]["cached_tokens"] == 4


def test_a_later_message_carries_the_branch_before_it(page: Client, rig: Rig) -> None:
    first = answered(page, rig)
    second = send(
        page, "More", conversation=first["conversation"]["id"], parent=first["answer"]["id"]
    ).json()
    assert [turn["content"] for turn in prompt_of(second["answer"]["generation"]["id"])] == [
        "Hello",
        "Warm.",
        "More",
    ]


def test_an_edited_message_is_a_sibling_with_its_own_branch(page: Client, rig: Rig) -> None:
    first = answered(page, rig)
    edited = send(page, "Other", conversation=first["conversation"]["id"], parent=None).json()
    assert edited["user_message"]["parent"] is None
    assert prompt_of(edited["answer"]["generation"]["id"]) == (
        {"role": "user", "content": "Other"},
    )


def test_regenerating_makes_another_version(page: Client, rig: Rig) -> None:
    first = answered(page, rig)
    url = f"/chat/messages/{first['answer']['id']}/regenerate"
    response = page.post(url, {"options": {"seed": 3}}, content_type="application/json")
    again = response.json()["answer"]
    assert response.status_code == 201
    assert again["parent"] == first["user_message"]["id"]
    assert Message.objects.get(pk=first["answer"]["id"]).content == "Warm."
    assert Conversation.objects.get().active_leaf_id == uuid.UUID(again["id"])


def test_what_was_deleted_a_moment_ago_is_not_regenerated(page: Client, person: User) -> None:
    first = send(page).json()
    answer = get_message(person, uuid.UUID(first["answer"]["id"]))
    assert answer.parent is not None
    delete_conversation(answer.conversation)
    with pytest.raises(Refusal, match="message") as refused:
        regenerate(answer, model_name="", options=TurnOptions(), client="")
    assert refused.value.status == 404


def test_only_answers_can_be_regenerated(page: Client, rig: Rig) -> None:
    first = answered(page, rig)
    url = f"/chat/messages/{first['user_message']['id']}/regenerate"
    assert page.post(url, {}, content_type="application/json").status_code == 400


def test_stopping_ends_what_waits_at_once(page: Client, rig: Rig) -> None:
    generation_id = send(page).json()["answer"]["generation"]["id"]
    assert page.post(f"/chat/generations/{generation_id}/cancel").status_code == 202
    assert settle_generation(generation_id)
    row = Generation.objects.get()
    assert (row.state, row.finish_reason) == ("cancelled", "cancelled")


def test_stopping_what_has_ended_changes_nothing(page: Client, rig: Rig) -> None:
    generation_id = answered(page, rig)["answer"]["generation"]["id"]
    assert page.post(f"/chat/generations/{generation_id}/cancel").status_code == 202
    assert Generation.objects.get().state == "done"


def test_who_writes_on_in_the_moment_of_the_end_is_answered(page: Client, rig: Rig) -> None:
    first = send(page).json()
    end(rig, first["answer"]["generation"]["id"], "Warm.")
    second = send(
        page, "And?", conversation=first["conversation"]["id"], parent=first["answer"]["id"]
    )
    assert second.status_code == 201
    prompt = prompt_of(second.json()["answer"]["generation"]["id"])
    assert [turn["content"] for turn in prompt] == ["Hello", "Warm.", "And?"]


def test_a_limit_of_one_answer_at_once_lets_the_next_one_in(
    page: Client, person: User, rig: Rig
) -> None:
    Quota.objects.create(user=person, max_concurrent=1)
    first = send(page).json()
    assert send(page).status_code == 429
    end(rig, first["answer"]["generation"]["id"], "Warm.")
    url = f"/chat/messages/{first['answer']['id']}/regenerate"
    again = page.post(url, {}, content_type="application/json")
    assert again.status_code == 201
    end(rig, again.json()["answer"]["generation"]["id"], "Warmer.")
    assert send(page).status_code == 201


def test_an_unfinished_answer_cannot_be_continued(page: Client, rig: Rig) -> None:
    first = send(page).json()
    response = send(
        page, "More", conversation=first["conversation"]["id"], parent=first["answer"]["id"]
    )
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "still_generating"


def test_a_message_is_kept_while_redis_is_away(page: Client, settings: Any) -> None:
    settings.REDIS_URL = "unix:///nowhere/redis.sock"
    assert send(page).status_code == 201
    assert Generation.objects.get().state == "queued"


@pytest.mark.parametrize("depth", [300, 600, 979, 5000, 200_000])
def test_a_deeply_nested_body_is_refused(page: Client, depth: int) -> None:
    """Where Python's own reader gives up, from some 900 to 10,000 on, there is no field to name."""
    options = '{"x": ' * depth + '"\\ud83d\\ude00"' + "}" * depth
    body = f'{{"content": "Hi", "options": {options}}}'
    response = page.post("/chat/messages", body, content_type="application/json")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "invalid_json")
    assert error["field"] in {"options", None if depth > 900 else "options"}


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ({"content": ""}, 400, "content"),
        ({"content": "  "}, 400, "content"),
        ({"content": 5}, 400, "content"),
        ({"content": "a\x00b"}, 400, "content"),
        ({"model": "gone"}, 404, "model"),
        ({"conversation": "x"}, 400, "conversation"),
        ({"conversation": str(uuid.UUID(int=1))}, 404, None),
        ({"parent": str(uuid.UUID(int=1))}, 400, "parent"),
        ({"options": {"temperature": 9}}, 400, "options.temperature"),
        ({"options": {"max_tokens": 0}}, 400, "options.max_tokens"),
    ],
)
def test_a_bad_message_is_refused_and_leaves_nothing(
    page: Client, fields: dict[str, Any], status: int, field: str | None
) -> None:
    response = send(page, **{"content": "Hi", **fields})
    assert (response.status_code, response.json()["error"]["field"]) == (status, field)
    assert not Conversation.objects.exists()
    assert not Generation.objects.exists()


def test_a_message_that_is_too_long_is_refused_in_a_sentence(page: Client) -> None:
    error = send(page, "x" * 2_000_001).json()["error"]
    assert error["message"] == "This is too long: at most 2,000,000 characters can be sent."
    assert 'data-most-characters="2000000"' in page.get("/").content.decode()


def test_bad_json_is_refused(page: Client) -> None:
    response = page.post("/chat/messages", b"{", content_type="application/json")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_json"


def test_the_csrf_token_is_asked_for(person: Any) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(person)
    response = send(browser)
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "csrf"
