"""Starts and cancels generations. Rows first: the database is the truth, Redis may go."""

from __future__ import annotations

import logging
import uuid
from functools import partial

from django.db import transaction

from accounts.prepared import insert_rows
from engine import wire
from hosting.actions.admission import Asked, Terms, admit, unlimited
from hosting.actions.orders import Order, Submitted
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Generation
from hosting.models.generation import GenerationQuerySet

BENCHMARKS = "benchmarks"  # whose turn and cache their requests have: no person's
_PRIORITIES = {
    Generation.Kind.CHAT: wire.Priority.INTERACTIVE,
    Generation.Kind.API: wire.Priority.API,
    Generation.Kind.TITLE: wire.Priority.BATCH,
    Generation.Kind.BATCH: wire.Priority.BATCH,
    Generation.Kind.BENCH: wire.Priority.BATCH,
}

logger = logging.getLogger(__name__)


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


def cancel_open(which: GenerationQuerySet) -> None:
    """The same for all of these that are open, in the order in which settling locks them."""
    for generation in which.open().order_by("pk"):
        cancel_generation(generation)


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
    return unlimited(asked) if order.kind in Generation.OWN_KINDS else admit(asked)


def _priority(order: Order) -> wire.Priority:
    return wire.Priority.BATCH if order.can_wait else _PRIORITIES[order.kind]


def _row(order: Order, terms: Terms) -> Generation:
    is_benchmark = order.kind == Generation.Kind.BENCH
    return Generation(
        user=order.user,
        kind=order.kind,
        model_name=order.model.name,
        tenant=BENCHMARKS if is_benchmark else tenant_of(order.user.pk),
        priority=terms.limits.lowered(_priority(order)),
        api_key=order.api_key,
        client=order.client[:100],
        conversation=order.conversation,
        message=order.message,
        reserved_tokens=terms.reserved_tokens,
        cached_weight=terms.limits.cached_weight,
        time_zone=terms.limits.zone.key,
        paying_group_id=terms.paying_group_id,
    )
