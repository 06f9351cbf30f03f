"""Generations of a caller who waits on an open connection: started, given up, or left."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial

from django.db import transaction

from accounts.kept import Kept
from engine import wire
from hosting.actions.ended import counting_ended
from hosting.actions.generations import cancel_generation, start_generation, submit
from hosting.actions.orders import Order
from hosting.actions.outcome import failure
from hosting.actions.settling import close_generation
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Generation

_lives: Kept[None] = Kept()


def start_served(
    orders: Sequence[Order], *, web_process: uuid.UUID | None = None
) -> list[Generation]:
    """Start all of them, which are one person's. `web_process`: which alone can tell the answers.

    Raises Refusal, and EngineUnavailable while no engine has lived for half a second; then it
    starts none.
    """
    _lives.get("an engine", _check_an_engine_lives)
    return counting_ended(orders[0].user, partial(_start_all, orders, web_process))


def _check_an_engine_lives() -> None:
    if not get_client().has_engine():
        raise EngineUnavailable("no engine is alive")


def _start_all(orders: Sequence[Order], web_process: uuid.UUID | None) -> list[Generation]:
    with transaction.atomic():
        return [
            start_generation(
                order,
                web_process=web_process,
                num_together=len(orders),
                num_choices=_num_choices(order, orders[number:]),
            )
            for number, order in enumerate(orders)
        ]


def _num_choices(order: Order, others: Sequence[Order]) -> int:
    """How many of these have its very prompt."""
    prompt = (order.messages, order.prompt, order.prompt_token_ids)
    return sum((one.messages, one.prompt, one.prompt_token_ids) == prompt for one in others)


def cancel_generations(generations: Sequence[Generation]) -> None:
    for generation in generations:
        cancel_generation(generation)


def submit_again(request_id: str) -> bool:
    """What Redis has forgotten and somebody wants. False where there is nothing to follow."""
    wanted = Generation.objects.open().filter(pk=request_id, is_cancel_requested=False)
    line = wanted.values_list("request", flat=True).first()
    if line is None:
        return get_client().has_request(request_id)  # asked again by others, it may have ended
    submit(wire.decode(line), line, is_again=True)
    return True


def abandon_generations(generations: Sequence[Generation]) -> None:
    """Nobody answered in time and the caller knows: close the rows, stop what may still come."""
    for generation in generations:
        cancel_generation(generation)
        close_generation(
            generation.pk, failure("failed", "engine_unavailable", "No engine answered in time.")
        )
