"""Fills one database, opens its pages and writes down what each took: the child of usage.py.

`python -m tests.bench.usage_pages LINES`; the last line of its output is JSON.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.bench.stats import median

ROUNDS = 5
PAGES = (
    "/usage/",
    "/usage/?window=year",
    "/usage/csv?window=year",
    "/usage/team/",
    "/usage/team/?window=day",
    "/usage/team/?window=quarter",
    "/usage/team/?window=year",
    "/usage/team/?window=year&person={person}",
    "/usage/team/?window=year&group={group}&model=model-1",
    "/usage/team/?window=year&key={key}",
    "/usage/team/csv?window=year",
    "/admin/accounts/usagerecord/",
    "/admin/accounts/usagerecord/?p=99",
    "/admin/accounts/usagerecord/?end__exact=failed",
    "/admin/accounts/usagerecord/?end__exact=refused",
    "/admin/accounts/usagerecord/?q=person7%40",
    "/admin/accounts/usagerecord/?q=nobody-is-called-so",
    "/admin/accounts/usagerecord/?q=model-3&end__exact=failed",
    "/admin/accounts/usagerecord/?created_at__gte={year_ago}&created_at__lt={month_ago}",
    "/admin/accounts/hourlyusage/",
    "/admin/accounts/user/",
    "/admin/accounts/user/{person}/change/",
    "/admin/accounts/apikey/",
    "/admin/accounts/apikey/{key}/change/",
    "/admin/accounts/auditrecord/",
    "/admin/accounts/auditrecord/?q=key.revoke",
    "/admin/hosting/generation/",
    "/admin/hosting/generation/?state__exact=failed",
    "/admin/hosting/generation/?q=person7%40",
    "/admin/live/",
    "/admin/cache/",
)


def main(num_lines: int) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "hosting.settings"
    import django

    django.setup()
    found = [*_filling(num_lines), *_pages(), *_writes()]
    print(json.dumps(found))


def _filling(num_lines: int) -> Iterator[dict[str, Any]]:
    """Once each: a year's roll-up is what is made up for after a year without one."""
    from django.core.management import call_command

    from accounts.rollups import roll_up_what_is_new
    from tests.bench.usage_ledger import seed

    call_command("migrate", verbosity=0)
    yield _timed("fill the database", lambda: seed(num_lines), rounds=1)
    yield _timed("sum the whole ledger", roll_up_what_is_new, rounds=1)


def _pages() -> Iterator[dict[str, Any]]:
    from django.test import Client

    from accounts.models import User
    from tests.bench.usage_ledger import seeded

    now = datetime.datetime.now(datetime.UTC).date()
    names = dataclasses.asdict(seeded()) | {
        "year_ago": now - datetime.timedelta(days=360),
        "month_ago": now - datetime.timedelta(days=30),
    }
    browser = Client(headers={"host": "localhost"})
    browser.force_login(User.objects.get(email="bench@example.org"))

    def opened(url: str) -> None:
        status = browser.get(url).status_code
        if status != 200:
            raise SystemExit(f"{url} gave {status}")

    for page in PAGES:
        yield _timed(page, partial(opened, page.format(**names)), bar_ms=300)


def _writes() -> Iterator[dict[str, Any]]:
    from accounts.models import RollUpMark
    from accounts.rollups import roll_up_what_is_new
    from tests.bench.usage_ledger import settle_one

    yield _timed("settle one generation", settle_one, bar_ms=10, rounds=100)
    RollUpMark.objects.update(seen_at="2000-01-01T00:00Z")  # what was seen is settled by now
    roll_up_what_is_new()
    settle_one()
    yield _timed("sum what is new", roll_up_what_is_new, bar_ms=1000)


def _timed(
    name: str, do: Callable[[], object], *, bar_ms: float | None = None, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Median and worst of a few rounds, after one that warms where there are several."""
    walls, cpus = [], []
    for number in range(rounds + (rounds > 1)):
        wall, cpu = time.perf_counter(), time.process_time()
        do()
        if number or rounds == 1:
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
    p50 = median(walls)
    print(f"{1000 * p50:8.0f} ms  {name}", file=sys.stderr, flush=True)
    return {"name": name, "p50": p50, "worst": max(walls), "cpu": median(cpus), "bar_ms": bar_ms}


if __name__ == "__main__":
    main(int(sys.argv[1]))
