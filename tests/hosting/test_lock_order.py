"""Two who want the same rows at once: they wait for each other, and nobody gets an error for it.

PostgreSQL locks rows, and ends one of two who hold what the other wants.
"""

from __future__ import annotations

import datetime
import threading
from concurrent.futures import ThreadPoolExecutor

from django.db import transaction
from django.utils import timezone

from accounts.keys import create_api_key, revoke_api_key
from accounts.models import ApiKey, User
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order
from hosting.models import Generation, HostedModel
from tests.hosting.test_access_races import HELLO, HOLD_SECONDS, closing


def test_who_loses_access_is_in_nobodys_way_who_settles(person: User, model: HostedModel) -> None:
    key = create_api_key(user=person, name="script")[0]
    found = [started(person, model, key) for _ in range(2)]
    first, last = sorted(found, key=lambda one: one.pk)
    newest = timezone.now() + datetime.timedelta(seconds=1)
    Generation.objects.filter(pk=last.pk).update(created_at=newest)  # lists begin with it
    begins = threading.Event()

    def settle() -> None:
        for one in (first, last):
            list(Generation.objects.filter(pk=one.pk).select_for_update(no_key=True))
            begins.set()
            threading.Event().wait(HOLD_SECONDS)

    def revoke() -> None:
        begins.wait()
        revoke_api_key(key)

    with ThreadPoolExecutor() as threads:
        settling = threads.submit(closing, transaction.atomic(settle))
        threads.submit(closing, revoke).result()
        settling.result()
    assert Generation.objects.filter(is_cancel_requested=True).count() == 2


def started(person: User, model: HostedModel, key: ApiKey) -> Generation:
    kind = Generation.Kind.API
    order = Order(user=person, kind=kind, model=model, messages=HELLO, api_key=key)
    return start_generation(order)
