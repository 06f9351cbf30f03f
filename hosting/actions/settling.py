"""Stores what has ended: the row, its message, the ledger's line. It starts nothing."""

from __future__ import annotations

import uuid
import zoneinfo
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.ledger import Line, record_usage, spend
from accounts.limits import shared_budget_of
from accounts.models import UsageRecord
from accounts.prepared import Given, prepared, update_rows
from engine import wire
from hosting.actions.background import enqueue
from hosting.actions.batch_events import store_events
from hosting.actions.forgetting import forget_events
from hosting.actions.hints import hint
from hosting.actions.outcome import Outcome, cancelled_before_start, fold
from hosting.actions.titles import clean_title
from hosting.engine_client import get_client
from hosting.models import Conversation, Generation, Message

_LEDGER_KINDS = {
    Generation.Kind.CHAT: UsageRecord.Kind.CHAT,
    Generation.Kind.API: UsageRecord.Kind.API,
    Generation.Kind.TITLE: UsageRecord.Kind.INTERNAL,
    Generation.Kind.BATCH: UsageRecord.Kind.API,
    Generation.Kind.BENCH: UsageRecord.Kind.INTERNAL,
}
_CALLS_TOOLS = wire.FinishReason.TOOL_CALLS
_OF_CONVERSATIONS = (Generation.Kind.CHAT, Generation.Kind.TITLE)


def settle_generation(request_id: str) -> bool:
    """Store the answer and the ledger line of a request that ended. False: nothing was left to do.

    Duplicate and simultaneous calls settle once. Raises EngineUnavailable.
    """
    return settle_generations([request_id]) > 0


def settle_generations(request_ids: Sequence[str]) -> int:
    """The same for several that ended together, in one transaction. How many it settled."""
    outcomes = {
        uuid.UUID(request_id): outcome
        for request_id, events in get_client().read_histories(request_ids).items()
        if (outcome := fold(events)) is not None
    }
    return close_generations(outcomes) if outcomes else 0


def close_generation(generation_id: uuid.UUID, outcome: Outcome) -> bool:
    return close_generations({generation_id: outcome}) > 0


def close_generations(outcomes: Mapping[uuid.UUID, Outcome]) -> int:
    """One transaction: rows, messages, ledger, in the order given. The lock lets one caller in. How
    many it closed."""
    with transaction.atomic():
        given = {f"pk_{number}": pk for number, pk in enumerate(outcomes)}
        found = {row.pk: row for row in _held(names=tuple(given)).objects(**given)}
        closing = {pk: _closing_fields(outcome) for pk, outcome in outcomes.items() if pk in found}
        update_rows(Generation, closing)
        lines = [_close(found[pk], outcomes[pk], fields) for pk, fields in closing.items()]
        spend(record_usage(lines))
    return len(closing)


def close_cancelled(generation: Generation) -> bool:
    """End what Redis does not know and nobody wants any more."""
    return close_generation(generation.pk, cancelled_before_start())


@prepared
def _held(*, names: tuple[str, ...]) -> QuerySet[Generation]:
    """Those of so many that are open, locked in one order by everybody."""
    rows = Generation.objects.open().filter(pk__in=list(map(Given, names))).order_by("pk")
    rows = rows.select_related("conversation").defer("request")
    return rows.select_for_update(of=("self",), no_key=True)


def _close(generation: Generation, outcome: Outcome, fields: dict[str, Any]) -> Line:
    """What belongs to a row that has these values now."""
    for name, value in fields.items():
        setattr(generation, name, value)
    _store_answer(generation, outcome)
    transaction.on_commit(partial(_announce_end, generation))
    record = _usage_record(generation, outcome)
    zone = zoneinfo.ZoneInfo(generation.time_zone)
    group_id = generation.paying_group_id
    shared = shared_budget_of(group_id) if group_id else None
    return Line(record, record.created_at.astimezone(zone).date(), shared)


def _closing_fields(outcome: Outcome) -> dict[str, Any]:
    return {
        "state": outcome.state,
        "request": "",
        "finish_reason": outcome.finish_reason,
        "error_code": outcome.error_code,
        "error_detail": outcome.error_detail,
        "prompt_tokens": outcome.usage.prompt_tokens,
        "cached_tokens": outcome.usage.cached_tokens,
        "completion_tokens": outcome.usage.completion_tokens,
        "reasoning_tokens": outcome.usage.reasoning_tokens,
        "nearest_tokens": outcome.prefix.nearest_tokens if outcome.prefix else None,
        "prefix_miss": outcome.prefix.miss if outcome.prefix else "",
        "queued_seconds": outcome.timings.queued_seconds,
        "ttft_seconds": outcome.timings.ttft_seconds,
        "decode_seconds": outcome.timings.decode_seconds,
        "finished_at": timezone.now(),
    }


def _store_answer(generation: Generation, outcome: Outcome) -> None:
    if generation.kind == Generation.Kind.TITLE:
        _store_title(generation, outcome)
    if outcome.events and _is_read_from_rows(generation):
        store_events(generation, outcome.events)
    if generation.message_id is None or generation.conversation_id is None:
        return
    Message.objects.filter(pk=generation.message_id).update(
        content=outcome.answer.content,
        reasoning=outcome.answer.reasoning,
        tool_calls=outcome.answer.tool_calls,
    )
    Conversation.objects.filter(pk=generation.conversation_id).update(updated_at=timezone.now())


def _is_read_from_rows(generation: Generation) -> bool:
    """Of a benchmark's nobody may be left who reads it, once it is cancelled."""
    is_cancelled = generation.state == Generation.State.CANCELLED
    is_benchmark = generation.kind == Generation.Kind.BENCH
    return generation.kind == Generation.Kind.BATCH or (is_benchmark and not is_cancelled)


def _store_title(generation: Generation, outcome: Outcome) -> None:
    """A title that the person gave meanwhile stays."""
    title = clean_title(outcome.answer.content)
    if title and generation.conversation_id is not None:
        Conversation.objects.filter(
            pk=generation.conversation_id, is_title_set_by_person=False
        ).update(title=title)


def _usage_record(generation: Generation, outcome: Outcome) -> UsageRecord:
    assert generation.finished_at is not None
    return UsageRecord(
        generation_id=generation.pk,
        user_id=generation.user_id,
        api_key_id=generation.api_key_id,
        client=generation.client,
        kind=_LEDGER_KINDS[Generation.Kind(generation.kind)],
        charged_tokens=generation.charged_tokens,
        model_name=generation.model_name,
        prompt_tokens=generation.prompt_tokens,
        cached_tokens=generation.cached_tokens,
        completion_tokens=generation.completion_tokens,
        reasoning_tokens=generation.reasoning_tokens,
        queued_seconds=generation.queued_seconds,
        ttft_seconds=generation.ttft_seconds,
        duration_seconds=(generation.finished_at - generation.created_at).total_seconds(),
        end=outcome.end,
        error_code=generation.error_code,
        created_at=generation.finished_at,
    )


def _announce_end(generation: Generation) -> None:
    conversation = generation.conversation
    if conversation is None:
        if generation.kind in _OF_CONVERSATIONS:  # it was deleted while it was answered
            forget_events([str(generation.pk)])
        return
    hint(person_id=generation.user_id, conversation_id=conversation.pk)
    is_first_answer = (
        generation.kind == Generation.Kind.CHAT
        and generation.state == Generation.State.DONE
        and not conversation.title
    )
    if is_first_answer:
        enqueue("write_title", str(conversation.pk))
    if generation.kind == Generation.Kind.CHAT and generation.finish_reason == _CALLS_TOOLS:
        enqueue("begin_tool_round", str(generation.message_id))
