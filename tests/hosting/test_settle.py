"""Ends become rows: answer, state, ledger line; exactly once whoever comes how often."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from accounts.models import UsageRecord, User
from engine import wire
from hosting.actions.generations import cancel_generation, start_generation
from hosting.actions.orders import Order
from hosting.actions.settling import settle_generation, settle_generations
from hosting.models import Conversation, Generation, HostedModel, Message
from tests.engine.transport.rig import Rig, emit
from tests.hosting.scripted_engine import delta, finished

PROMPT = ({"role": "user", "content": "Hi"},)


@pytest.fixture
def answer(person: User) -> Message:
    conversation = Conversation.objects.create(owner=person, title="Set")
    return Message.objects.create(conversation=conversation, role="assistant")


@pytest.fixture
def start(person: User, model: HostedModel, answer: Message) -> Callable[[], Generation]:
    def started() -> Generation:
        return start_generation(
            Order(
                user=person,
                kind=Generation.Kind.CHAT,
                model=model,
                messages=PROMPT,
                message=answer,
                conversation=answer.conversation,
                client="Browser",
            )
        )

    return started


def run(rig: Rig, generation: Generation, *events: wire.Event) -> None:
    rig.admit_all()
    engine = rig.engine()
    engine.pull({"demo": 1})
    emit(engine, str(generation.pk), *events)


def test_an_answer_its_row_and_its_ledger_line_are_stored(
    rig: Rig, start: Callable[[], Generation], answer: Message
) -> None:
    generation = start()
    run(
        rig, generation, delta("Hm", wire.Channel.REASONING), delta("Hel"), delta("lo"),
        finished(reasoning_tokens=1),
    )  # fmt: skip
    assert settle_generation(str(generation.pk))
    generation.refresh_from_db()
    answer.refresh_from_db()
    line = UsageRecord.objects.get()
    assert (answer.content, answer.reasoning) == ("Hello", "Hm")
    assert (generation.state, generation.finish_reason) == ("done", "stop")
    assert (generation.prompt_tokens, generation.cached_tokens) == (9, 4)
    assert (generation.ttft_seconds, generation.decode_seconds) == (0.5, 1.5)
    assert generation.request == ""
    assert (line.generation_id, line.end, line.client) == (generation.pk, "stop", "Browser")
    assert (line.prompt_tokens, line.completion_tokens, line.reasoning_tokens) == (9, 2, 1)


def test_where_a_prompt_left_the_nearest_stored_prefix_is_kept_for_administrators(
    rig: Rig, start: Callable[[], Generation], admin_client: Client
) -> None:
    generation = start()
    use = wire.PrefixUse(nearest_tokens=777, miss="not_owner")
    run(rig, generation, delta("Hello"), wire.replace(finished(), prefix=use))
    assert settle_generation(str(generation.pk))
    generation.refresh_from_db()
    assert (generation.nearest_tokens, generation.prefix_miss) == (777, "not_owner")
    page = admin_client.get(reverse("admin:hosting_generation_change", args=[generation.pk]))
    assert "777 stored: only somebody else had" in page.content.decode()


def test_a_failure_keeps_what_was_said(
    rig: Rig, start: Callable[[], Generation], answer: Message
) -> None:
    generation = start()
    failed = wire.Failed(code=wire.Code.ENGINE_ERROR, detail="It broke.")
    run(rig, generation, delta("Hel"), failed)
    assert settle_generation(str(generation.pk))
    generation.refresh_from_db()
    answer.refresh_from_db()
    assert answer.content == "Hel"
    assert (generation.state, generation.error_code) == ("failed", "engine_error")
    assert UsageRecord.objects.get().end == "failed"


def test_a_character_that_no_database_stores_is_left_out(
    rig: Rig, start: Callable[[], Generation], answer: Message
) -> None:
    generation = start()
    call = wire.ToolCallPart(index=0, call_id="c1", name="find")
    calling = wire.Delta(channel=wire.Channel.TOOL_CALL, text='{"a": "x\x00y"}', tool_call=call)
    failed = wire.Failed(code=wire.Code.ENGINE_ERROR, detail="No \x00 is known.")
    run(rig, generation, delta("a\x00b"), calling, failed)
    assert settle_generation(str(generation.pk))
    answer.refresh_from_db()
    generation.refresh_from_db()
    assert answer.content == "ab"
    assert answer.tool_calls[0]["function"]["arguments"] == '{"a": "xy"}'
    assert generation.error_detail == "No  is known."


def test_nothing_is_settled_before_the_end(rig: Rig, start: Callable[[], Generation]) -> None:
    generation = start()
    run(rig, generation, delta("Hel"))
    assert not settle_generation(str(generation.pk))
    generation.refresh_from_db()
    assert generation.is_open


def test_a_second_report_of_the_same_end_changes_nothing(
    rig: Rig, start: Callable[[], Generation]
) -> None:
    generation = start()
    run(rig, generation, delta("Hello"), finished())
    assert settle_generation(str(generation.pk))
    assert not settle_generation(str(generation.pk))
    assert UsageRecord.objects.count() == 1


def test_simultaneous_reports_settle_once(rig: Rig, start: Callable[[], Generation]) -> None:
    generation = start()
    run(rig, generation, delta("Hello"), finished())
    barrier = threading.Barrier(4)
    outcomes: list[bool] = []

    def settle() -> None:
        barrier.wait()
        outcomes.append(settle_generation(str(generation.pk)))
        connection.close()

    threads = [threading.Thread(target=settle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, False, False, True]
    assert UsageRecord.objects.count() == 1


def test_an_end_of_an_unknown_request_is_ignored(rig: Rig, person: User) -> None:
    request_id = str(uuid.uuid4())
    rig.queue(request_id)
    engine = rig.engine()
    engine.pull({"demo": 1})
    emit(engine, request_id, finished())
    assert not settle_generation(request_id)
    assert not UsageRecord.objects.exists()


def test_a_cancelled_request_is_settled_as_cancelled(
    rig: Rig, start: Callable[[], Generation]
) -> None:
    generation = start()
    rig.admit_all()
    cancel_generation(generation)
    assert settle_generation(str(generation.pk))
    assert Generation.objects.get().state == "cancelled"
    assert UsageRecord.objects.get().end == "cancelled"


def test_what_ended_together_is_in_the_ledger_in_the_order_of_its_end(
    rig: Rig, person: User, model: HostedModel
) -> None:
    order = Order(user=person, kind=Generation.Kind.API, model=model, messages=PROMPT)
    started = sorted((start_generation(order) for _ in range(5)), key=lambda one: one.pk)
    rig.admit_all()
    engine = rig.engine()
    engine.pull({"demo": 5})
    ids = [str(one.pk) for one in reversed(started)]
    for request_id in ids:
        emit(engine, request_id, finished())
    assert settle_generations(ids) == 5
    lines = UsageRecord.objects.order_by("pk").values_list("generation_id", flat=True)
    assert list(map(str, lines)) == ids
