"""Answers that have ended and that the ledger has not come to yet: whoever is in the way of
something because of them settles them first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from django.db.models import Q

from accounts.models import User
from hosting.actions.generations import settle_generations
from hosting.actions.limit_refusals import LimitMet
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Generation

_MOST_TRIES = 5

Started = TypeVar("Started")


def counting_ended(user: User, start: Callable[[], Started]) -> Started:
    """What `start()` gives; where a limit is met, again when what has ended of this person, or of
    the group that pays, counts as ended. Raises what it raises.

    The ledger may settle it in this moment: then nothing is left to be done here, and it is tried
    again all the same. And others may end and begin meanwhile.
    """
    for number in itertools.count(1):
        try:
            return start()
        except LimitMet as refusal:
            if refusal.is_of_begun or number == _MOST_TRIES:
                raise
            holding = Q(user=user)
            if refusal.group_id is not None:
                holding |= Q(paying_group=refusal.group_id)
            if not settle_ended(holding) and number > 1:
                raise
    raise AssertionError("the last try returns or raises")


def settle_ended(which: Q) -> int:
    """Of these generations. How many it settled; none while Redis is away."""
    found = Generation.objects.open().filter(which).order_by().values_list("pk", flat=True)
    try:
        ended = set(get_client().ended_requests())
        return settle_generations([str(pk) for pk in found if str(pk) in ended])
    except EngineUnavailable:
        return 0
