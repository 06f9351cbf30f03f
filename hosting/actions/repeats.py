"""Calls with an Idempotency-Key: sent again, they follow the generations that the first one began.

A key is free again when its answer cannot be told any more: it failed, was cancelled, or ended so
long ago that Redis has forgotten the events. A client that leaves cancels nothing; when nobody has
followed for a while, `reconcile` does.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from hosting.actions.admission import check_may_use
from hosting.actions.generations import cancel_open
from hosting.actions.orders import Order
from hosting.actions.refusals import Refusal
from hosting.actions.served import start_served
from hosting.actions.settling import settle_generation
from hosting.engine_client import get_client
from hosting.models import Generation, IdempotencyKey

HOLD_SECONDS = 60.0  # how long a generation goes on that nobody follows
RENEW_SECONDS = 20.0
_KEPT = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RepeatKey:
    """`fingerprint` is the same for the same question."""

    user: User
    name: str
    fingerprint: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """`may_come_again`: the client, if it leaves; then nothing is cancelled."""

    generations: list[Generation]
    is_repeat: bool = False
    may_come_again: bool = False


class KeyReused(Refusal):
    """The key belongs to another question."""

    def __init__(self) -> None:
        message = "This Idempotency-Key was used for another request. Send each with its own key."
        super().__init__("idempotency_key_reused", message, status=422)


def start_or_repeat(orders: Sequence[Order], key: RepeatKey) -> Served:
    """Of many at once one starts and the others follow it. Raises Refusal, EngineUnavailable."""
    with transaction.atomic():
        User.objects.hold(key.user.pk)
        known = IdempotencyKey.objects.filter(user=key.user, key=key.name)
        for one in known.select_for_update():
            if generations := _told_again(one):
                _check_same(one, key, orders)
                hold(key)
                return Served(generations=generations, is_repeat=True, may_come_again=True)
        known.delete()
        generations = start_served(orders)
        IdempotencyKey.objects.create(
            user=key.user,
            key=key.name,
            fingerprint=key.fingerprint,
            generation_ids=[str(one.pk) for one in generations],
            followed_until=_held_until(),
        )
    return Served(generations=generations, may_come_again=True)


def hold(key: RepeatKey) -> None:
    """Somebody follows: the generations go on for another while."""
    known = IdempotencyKey.objects.filter(user=key.user, key=key.name)
    known.update(followed_until=_held_until())


def hold_all() -> None:
    """Nobody could say whether they follow: all that is not given up goes on for another while."""
    known = IdempotencyKey.objects.filter(followed_until__isnull=False)
    known.update(followed_until=_held_until())


def cancel_what_nobody_follows() -> None:
    """A repeat that comes in this moment waits for the row, and then starts anew."""
    left = IdempotencyKey.objects.filter(followed_until__lt=timezone.now())
    for pk in left.values_list("pk", flat=True):
        with transaction.atomic():
            for one in left.filter(pk=pk).select_for_update():
                cancel_open(Generation.objects.filter(pk__in=one.generation_ids))
                one.followed_until = None
                one.save(update_fields=["followed_until"])


def delete_old_keys() -> None:
    IdempotencyKey.objects.filter(created_at__lt=timezone.now() - _KEPT).delete()


def _told_again(known: IdempotencyKey) -> list[Generation]:
    """Its generations, if all of them run or can be read from the beginning; else none."""
    for open_one in Generation.objects.open().filter(pk__in=known.generation_ids):
        settle_generation(str(open_one.pk))  # it may have ended a moment ago
    found = Generation.objects.in_bulk(known.generation_ids, field_name="pk")
    generations = sorted(found.values(), key=lambda one: known.generation_ids.index(str(one.pk)))
    is_whole = len(generations) == len(known.generation_ids)
    return generations if is_whole and all(map(_is_told, generations)) else []


def _is_told(generation: Generation) -> bool:
    if generation.is_open:
        return not generation.is_cancel_requested
    is_done = generation.state == Generation.State.DONE
    return is_done and get_client().has_request(str(generation.pk))


def _check_same(known: IdempotencyKey, key: RepeatKey, orders: Sequence[Order]) -> None:
    if known.fingerprint != key.fingerprint:
        raise KeyReused
    for order in orders[:1]:  # all of one model
        check_may_use(order.user, order.api_key, order.model)


def _held_until() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=HOLD_SECONDS)
