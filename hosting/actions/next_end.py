"""When the first of a person's open answers may end, by how long their last ones took. A guess."""

from __future__ import annotations

import datetime
import statistics

from accounts.models import User
from hosting.models import Generation

_NUM_LAST = 20
_FIRST_GUESS_SECONDS = 5.0  # of who has no history
_MOST_SECONDS = 60.0  # SDKs do not believe more


def next_end_seconds(user: User, now: datetime.datetime) -> float:
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
