"""How long whoever met a limit had better wait, as far as that can be known."""

from __future__ import annotations

import datetime
import statistics

from accounts.models import User
from hosting.actions.meters import Meter
from hosting.actions.uses import requests_leaving, tokens_leaving
from hosting.models import Generation

_NUM_LAST = 20
_FIRST_GUESS_SECONDS = 5.0  # of who has no history
_MOST_SECONDS = 60.0  # SDKs do not believe more
_LEAVING = {"requests_per_minute": requests_leaving, "tokens_per_minute": tokens_leaving}


def wait_seconds(user: User, meter: Meter, wanted: int, now: datetime.datetime) -> float:
    """Until `wanted` may be had."""
    if meter.is_spent(wanted):
        return (meter.resets_at - now).total_seconds()
    missing = wanted - meter.left
    if leaving := _LEAVING.get(meter.name):
        for leaves_at, amount in leaving(user.pk, meter.api_key_id, now):
            missing -= amount
            if missing <= 0:
                return max(0.0, (leaves_at - now).total_seconds())
    return _next_end_seconds(user, now)


def _next_end_seconds(user: User, now: datetime.datetime) -> float:
    """When the first of a person's open answers may end, by how long their last ones took."""
    rows = Generation.objects.of(user.pk).counted()
    done = rows.filter(state=Generation.State.DONE).order_by("-finished_at")[:_NUM_LAST]
    took = [
        (finished_at - created_at).total_seconds()
        for created_at, finished_at in done.values_list("created_at", "finished_at")
        if finished_at is not None
    ]
    if not took:
        return _FIRST_GUESS_SECONDS
    begun = rows.open().values_list("created_at", flat=True)
    ages = [(now - created_at).total_seconds() for created_at in begun]
    # What already took longer than usual may take as long again
    left = [max(statistics.median(took) - age, age / 2) for age in ages]
    return min(max(1.0, min(left, default=1.0)), _MOST_SECONDS)
