"""Answers that have ended and that the ledger has not come to yet: whoever is in the way of
something because of them settles them first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import transaction
from django.db.models import Q

from accounts.models import User
from hosting.actions.limit_refusals import LimitMet
from hosting.actions.settling import settle_generations
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Generation

Started = TypeVar("Started")


def counting_ended(user: User, start: Callable[[], Started]) -> Started:
    """What `start()` gives; where a limit is met, again when what has ended of this person, or of
    the group that pays, counts as ended. Raises what it raises.

    Nobody begins anything for this person in between: who has heard of an end has room for the
    next, however many ask at once.
    """
    try:
        return start()
    except LimitMet as refusal:
        if refusal.is_of_begun:
            raise
        holding = Q(user=user)
        if refusal.group_id is not None:
            holding |= Q(paying_group=refusal.group_id)
    with transaction.atomic():
        User.objects.hold(user.pk)
        settle_ended(holding)
        return start()


def settle_ended(which: Q) -> None:
    """Of these generations; none while Redis is away."""
    found = Generation.objects.open().filter(which).order_by().values_list("pk", flat=True)
    try:
        ended = set(get_client().ended_requests())
        settle_generations([str(pk) for pk in found if str(pk) in ended])
    except EngineUnavailable:
        return
