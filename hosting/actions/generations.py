"""Starts, cancels and settles generations. Rows first: the database is the truth, Redis may go."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import time
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
from accounts.models import ApiKey, UsageRecord, User
from accounts.prepared import Given, insert_rows, prepared, update_rows
from engine import wire
from hosting.actions.admission import Asked, Terms, admit, unlimited
from hosting.actions.background import enqueue
from hosting.actions.forgetting import forget_events
from hosting.actions.hints import hint
from hosting.actions.outcome import Outcome, cancelled_before_start, fold
from hosting.actions.titles import clean_title
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Conversation, Generation, HostedModel, Message

_PRIORITIES = {
    Generation.Kind.CHAT: wire.Priority.INTERACTIVE,
    Generation.Kind.API: wire.Priority.API,
    Generation.Kind.TITLE: wire.Priority.BATCH,
}
_LEDGER_KINDS = {
    Generation.Kind.CHAT: UsageRecord.Kind.CHAT,
    Generation.Kind.API: UsageRecord.Kind.API,
    Generation.Kind.TITLE: UsageRecord.Kind.INTERNAL,
}

# What a model may have a default for: HostedModel.default_*
_WITH_DEFAULTS = (
    *("temperature", "top_p", "top_k", "min_p"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty"),
)

Submitted = wire.Generate | wire.Embed | wire.Rerank
logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SamplingChoice:
    """What the caller chose. None: the model's default; a seed is drawn where none is given."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    top_logprobs: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that a new generation needs to know. Messages are OpenAI's, as on the wire; with
    `continues_last` the answer goes on where the last one ends.

    A raw text to continue has `prompt` (with a `suffix`, the gap before it is filled) or
    `prompt_token_ids` instead of messages.
    """

    user: User
    kind: Generation.Kind
    model: HostedModel
    messages: tuple[dict[str, Any], ...] | None = None
    continues_last: bool = False
    prompt: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    suffix: str | None = None
    sampling: SamplingChoice = dataclasses.field(default_factory=SamplingChoice)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    deadline_seconds: float | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: wire.ToolChoice = dataclasses.field(default_factory=wire.ToolChoice)
    grammar: wire.Grammar | None = None
    template_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    api_key: ApiKey | None = None
    client: str = ""
    conversation: Conversation | None = None
    message: Message | None = None

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything that becomes prompt."""
        raw = (self.template_options, self.prompt, self.suffix, self.prompt_token_ids)
        return (*(self.messages or ()), *self.tools, *filter(None, raw))

    @property
    def num_prompts(self) -> int:
        return 1

    @property
    def most_answer_tokens(self) -> int | None:
        return self.max_tokens or self.model.default_max_tokens

    def command(self, generation: Generation, terms: Terms) -> Submitted:
        return _command(generation, self, terms)


def start_generation(
    order: Order,
    *,
    web_process: uuid.UUID | None = None,
    num_together: int = 1,
    num_choices: int = 1,
) -> Generation:
    """Admit it, commit the row, then submit it. With Redis away it waits for `reconcile`.
    `web_process`: which alone can tell its answer. `num_together`, `num_choices`: admission.Asked.

    Raises Refusal where a limit is met; the service's own work meets none.
    """
    with transaction.atomic(savepoint=False):
        terms = _terms(order, num_together, num_choices)
        generation = _row(order, terms)
        generation.web_process = web_process
        generation.meters = terms.meters
        command = order.command(generation, terms)
        generation.request = wire.encode(command)
        insert_rows([generation])
        transaction.on_commit(partial(submit, command, generation.request))
    return generation


def cancel_generation(generation: Generation) -> None:
    """Ask for its end. The terminal event settles it; with Redis away `reconcile` asks again."""
    with transaction.atomic():
        open_row = Generation.objects.open().filter(pk=generation.pk)
        if open_row.update(is_cancel_requested=True):
            transaction.on_commit(partial(send_cancel, str(generation.pk)))


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


def close_cancelled(generation: Generation) -> bool:
    """End what Redis does not know and nobody wants any more."""
    return close_generation(generation.pk, cancelled_before_start())


def submit(command: Submitted, line: str, *, is_again: bool = False) -> None:
    """`line`: the command encoded. `is_again`: it was let in before, and is whatever waits now."""
    try:
        get_client().submit(command, line=line, is_again=is_again)
    except EngineUnavailable:
        logger.warning("submission put off", extra={"request_id": command.request_id})


def send_cancel(request_id: str) -> None:
    try:
        get_client().cancel(request_id)
    except EngineUnavailable:
        logger.warning("cancel put off", extra={"request_id": request_id})


def tenant_of(person_id: int) -> str:
    """Whose turn and whose cache it is, in words that tell an engine nothing else."""
    return f"user:{person_id}"


def _teams_of(order: Order) -> tuple[str, ...]:
    """Whose prefixes the request shares beside the person's own, where the model's mode says so."""
    if order.model.cache_sharing != HostedModel.CacheSharing.TEAM:
        return ()
    ids = order.user.groups.order_by("pk").values_list("pk", flat=True)
    return tuple(f"group:{pk}" for pk in ids)


def _terms(order: Order, num_together: int, num_choices: int) -> Terms:
    asked = Asked(
        user=order.user,
        api_key=order.api_key,
        model=order.model,
        content=order.content,
        max_tokens=order.most_answer_tokens,
        num_prompts=order.num_prompts,
        num_together=num_together,
        num_choices=num_choices,
    )
    return unlimited(asked) if order.kind == Generation.Kind.TITLE else admit(asked)


def _row(order: Order, terms: Terms) -> Generation:
    return Generation(
        user=order.user,
        kind=order.kind,
        model_name=order.model.name,
        tenant=tenant_of(order.user.pk),
        priority=terms.limits.lowered(_PRIORITIES[order.kind]),
        api_key=order.api_key,
        client=order.client[:100],
        conversation=order.conversation,
        message=order.message,
        reserved_tokens=terms.reserved_tokens,
        cached_weight=terms.limits.cached_weight,
        time_zone=terms.limits.zone.key,
        paying_group_id=terms.paying_group_id,
    )


def _command(generation: Generation, order: Order, terms: Terms) -> wire.Generate:
    return wire.Generate(
        request_id=str(generation.pk),
        model=order.model.name,
        tenant=generation.tenant,
        cache_teams=_teams_of(order),
        priority=wire.Priority(generation.priority),
        submitted_at=time.time(),
        sampling=_sampling(order.model, order.sampling),
        messages=order.messages,
        continues_last=order.continues_last,
        prompt=order.prompt,
        prompt_token_ids=order.prompt_token_ids,
        suffix=order.suffix,
        tools=order.tools,
        tool_choice=order.tool_choice,
        grammar=order.grammar,
        template_options=order.model.template_options | order.template_options,
        max_tokens=terms.max_tokens,
        max_context_tokens=terms.limits.max_context_tokens,
        budget_tokens=terms.budget_tokens,
        weight=terms.limits.weight,
        stop=order.stop,
        deadline_seconds=order.deadline_seconds,
    )


def _sampling(model: HostedModel, choice: SamplingChoice) -> wire.Sampling:
    """The caller's value, else the model's, else the wire's own default."""
    chosen = {
        name: value
        for name in _WITH_DEFAULTS
        for value in (_first(getattr(choice, name), getattr(model, f"default_{name}")),)
        if value is not None
    }
    return wire.Sampling(
        seed=secrets.randbits(32) if choice.seed is None else choice.seed,
        logit_bias=choice.logit_bias,
        top_logprobs=choice.top_logprobs,
        **chosen,
    )


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


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
    if generation.message_id is None or generation.conversation_id is None:
        return
    Message.objects.filter(pk=generation.message_id).update(
        content=outcome.answer.content,
        reasoning=outcome.answer.reasoning,
        tool_calls=outcome.answer.tool_calls,
    )
    Conversation.objects.filter(pk=generation.conversation_id).update(updated_at=timezone.now())


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
        if generation.kind != Generation.Kind.API:  # deleted while it was answered
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
