"""How long usage pages take with a large ledger: python -m tests.bench.usage_pages [LINES [DAYS]]

Seeds a database of its own (or the empty one that DATABASE_URL names) with a year's ledger lines,
rolls it up, and opens every page that reads usage a few times as administrator. The bar is 300 ms.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

PAGES = (
    "/usage/",
    "/usage/?window=year",
    "/usage/csv?window=year",
    "/usage/team/",
    "/usage/team/?window=day",
    "/usage/team/?window=year",
    "/usage/team/?window=year&person={person}",
    "/usage/team/?window=year&group={group}&model=model-1",
    "/usage/team/csv?window=year",
    "/admin/accounts/usagerecord/",
    "/admin/accounts/usagerecord/?end__exact=failed",
    "/admin/accounts/hourlyusage/",
    "/admin/accounts/auditrecord/",
)
BAR_MS = 300
NUM_PEOPLE, KEYS_EACH, NUM_MODELS = 50, 2, 4
ROUNDS = 5

# One statement per database, as no ORM writes ten million rows in reasonable time
_COLUMNS = """generation_id, kind, user_id, api_key_id, client, model_name, prompt_tokens,
    cached_tokens, completion_tokens, reasoning_tokens, queued_seconds, ttft_seconds,
    duration_seconds, charged_tokens, "end", error_code, created_at"""
_SQLITE = f"""
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s)
INSERT INTO accounts_usagerecord ({_COLUMNS})
SELECT printf('%%032x', i), 'api', %s + i %% {NUM_PEOPLE}, %s + i %% {NUM_PEOPLE * KEYS_EACH},
    'bench', 'model-' || (i %% {NUM_MODELS}), 500 + i %% 3000, i %% 500, i %% 700, 0, 0.1,
    (i %% 90) / 10.0, 3.0, 1000, CASE WHEN i %% 50 = 0 THEN 'failed' ELSE 'stop' END, '',
    strftime('%%Y-%%m-%%d %%H:%%M:%%S', 'now', '-' || ((i * 7919) %% %s) || ' seconds')
FROM n"""
_POSTGRES = f"""
INSERT INTO accounts_usagerecord ({_COLUMNS})
SELECT lpad(to_hex(i), 32, '0')::uuid, 'api', %s + i %% {NUM_PEOPLE},
    %s + i %% {NUM_PEOPLE * KEYS_EACH}, 'bench', 'model-' || (i %% {NUM_MODELS}),
    500 + i %% 3000, i %% 500, i %% 700, 0, 0.1, (i %% 90) / 10.0, 3.0, 1000,
    CASE WHEN i %% 50 = 0 THEN 'failed' ELSE 'stop' END, '',
    now() - ((i::bigint * 7919) %% %s) * interval '1 second'
FROM generate_series(1, %s) AS i"""


def main(num_lines: int = 10_000_000, num_days: int = 365) -> int:
    with tempfile.TemporaryDirectory(prefix="hearth-bench-") as folder:
        os.environ["HEARTH_DATA_DIR"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "hosting.settings"
        import django

        django.setup()
        names = _seed(num_lines, num_days)
        worst = 0.0
        for page, milliseconds in _timed(names):
            worst = max(worst, milliseconds)
            print(f"{milliseconds:8.0f} ms  {page}", flush=True)
    print(f"{num_lines} lines: worst {worst:.0f} ms, bar {BAR_MS} ms")
    return int(worst > BAR_MS)


def _seed(num_lines: int, num_days: int) -> dict[str, int]:
    from django.contrib.auth.models import Group
    from django.core.management import call_command
    from django.db import connection

    from accounts.models import ApiKey, User
    from accounts.rollups import roll_up_what_is_new

    call_command("migrate", verbosity=0)
    User.objects.create_superuser("bench@example.org")
    people = User.objects.bulk_create(
        User(email=f"person{n}@example.org", name=f"Person {n}") for n in range(NUM_PEOPLE)
    )
    group = Group.objects.create(name="half")
    group.user_set.set(people[::2])
    keys = ApiKey.objects.bulk_create(
        ApiKey(user=people[n % NUM_PEOPLE], name=f"key {n}", prefix=f"sk-{n}", key_hash="x")
        for n in range(NUM_PEOPLE * KEYS_EACH)
    )
    first = [people[0].pk, keys[0].pk]
    started = time.monotonic()
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(_SQLITE, [num_lines, *first, num_days * 86400])
        else:
            cursor.execute(_POSTGRES, [*first, num_days * 86400, num_lines])
            cursor.execute("ANALYZE")
    print(f"seeded in {time.monotonic() - started:.0f} s", flush=True)
    started = time.monotonic()
    roll_up_what_is_new()
    print(f"rolled up in {time.monotonic() - started:.0f} s", flush=True)
    return {"person": people[0].pk, "group": group.pk}


def _timed(names: dict[str, int]) -> Iterator[tuple[str, float]]:
    """The median of a few rounds, after one that warms."""
    from django.test import Client

    from accounts.models import User

    browser = Client(headers={"host": "localhost"})
    browser.force_login(User.objects.get(email="bench@example.org"))
    for page in PAGES:
        url = page.format(**names)
        took = []
        for _ in range(ROUNDS + 1):
            started = time.monotonic()
            response = browser.get(url)
            took.append(1000 * (time.monotonic() - started))
            if response.status_code != 200:
                raise SystemExit(f"{url} gave {response.status_code}")
        yield url, statistics.median(took[1:])


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
