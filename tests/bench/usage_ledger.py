"""Fills an empty database with a year of a team's ledger and three months of its generations.

The database makes the rows by itself: no ORM writes ten million in reasonable time.
"""

from __future__ import annotations

import dataclasses
import time

from django.contrib.auth.models import Group
from django.db import connection

from accounts.models import ApiKey, AuditHead, User
from engine import wire
from hosting.actions.outcome import Answer, Outcome
from hosting.actions.settling import close_generation
from hosting.models import Generation, HostedModel

NUM_PEOPLE, KEYS_EACH, NUM_MODELS, NUM_AUDIT_RECORDS = 50, 2, 4, 50_000
YEAR_SECONDS = 365 * 86_400
KEPT_SECONDS = 90 * 86_400  # generations' rows are deleted after these, ledger lines never
_CHUNK = 500_000  # rows a transaction: SQLite's log holds a whole one

# Some people, keys and models are used far more than others
_LINES = """
INSERT INTO accounts_usagerecord (generation_id, kind, user_id, api_key_id, client, model_name,
    prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, queued_seconds, ttft_seconds,
    duration_seconds, charged_tokens, "end", error_code, created_at)
SELECT {uuid}, CASE WHEN i % 3 = 0 THEN 'chat' ELSE 'api' END, {first_person} + person,
    CASE WHEN i % 3 > 0 THEN {first_key} + 2 * person + i % 3 - 1 END, 'bench/1.' || i % 9,
    'model-' || model, 500 + i % 3000, i % 500, i % 700, 0, 0.1, (i % 90) / 10.0, 3.0, 1000,
    CASE WHEN i % 50 = 0 THEN 'failed' WHEN i % 7 = 0 THEN 'length' ELSE 'stop' END, '', {moment}
FROM (SELECT i, person,
        CASE WHEN i % 4 > 0 THEN person % {models} ELSE i / 4 % {models} END AS model
    FROM (SELECT i, (i * 7919 % {people}) * (i * 104729 % 1009) / 1009 AS person
        FROM {numbers}) AS people) AS lines
"""
_GENERATIONS = """
INSERT INTO hosting_generation (id, user_id, api_key_id, client, kind, model_name, tenant, priority,
    request, state, is_cancel_requested, finish_reason, error_code, error_detail, prompt_tokens,
    cached_tokens, completion_tokens, reasoning_tokens, queued_seconds, ttft_seconds,
    decode_seconds, reserved_tokens, cached_weight, time_zone, created_at, finished_at{others})
SELECT generation_id, user_id, api_key_id, client, kind, model_name, 'user:' || user_id, kind, '',
    CASE WHEN "end" = 'failed' THEN 'failed' ELSE 'done' END, {false}, "end", error_code, '',
    prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, queued_seconds, ttft_seconds,
    duration_seconds, 4000, 1.0, 'UTC', created_at, created_at{defaults}
FROM accounts_usagerecord WHERE id BETWEEN {first} AND {last} AND created_at > {kept_since}
"""
_AUDIT = """
INSERT INTO accounts_auditrecord (number, created_at, actor_id, actor, address, action, target,
    before, after, mark)
SELECT i, {moment}, 1, 'person' || i % 50 || '@example.org', '127.0.0.1',
    CASE WHEN i % 9 = 0 THEN 'key.revoke' ELSE 'sign-in' END, 'something ' || i, '', '', 'x'
FROM {numbers}
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """What the addresses of pages name."""

    person: int
    key: int
    group: int


def seeded() -> Seeded:
    key = ApiKey.objects.order_by("pk")[0]
    return Seeded(person=key.user_id, key=key.pk, group=Group.objects.get().pk)


def settle_one() -> None:
    """The way of every generation: admitted, stored, ended, in the ledger and in the budgets."""
    key = ApiKey.objects.order_by("pk").select_related("user")[0]
    model = HostedModel.objects.order_by("pk")[0]
    generation = Generation.objects.create(
        user=key.user, api_key=key, kind="api", model_name=model.name, tenant="bench"
    )
    usage = wire.Usage(prompt_tokens=100, completion_tokens=10)
    outcome = Outcome(state=Generation.State.DONE, end="stop", answer=Answer(), usage=usage)
    close_generation(generation.pk, outcome)


def seed(num_lines: int) -> None:
    if connection.vendor == "sqlite":
        _execute("PRAGMA synchronous = OFF")
        _execute("PRAGMA cache_size = -400000")
    people = _make_people()
    keys = list(ApiKey.objects.order_by("pk").values_list("pk", flat=True))
    now = int(time.time())
    told = {
        "people": NUM_PEOPLE,
        "models": NUM_MODELS,
        "first_person": people[0].pk,
        "first_key": keys[0],
        "false": "0" if connection.vendor == "sqlite" else "false",
        "kept_since": _moment(str(now - KEPT_SECONDS)),
    }
    step = YEAR_SECONDS / num_lines
    for first in range(1, num_lines + 1, _CHUNK):
        last = min(num_lines, first + _CHUNK - 1)
        here = {
            **told,
            "first": first,
            "last": last,
            "numbers": _numbers(first, last),
            "uuid": _uuid("i"),
            "moment": _moment(f"{now - YEAR_SECONDS} + i * {step}"),
        }
        _execute(_LINES.format(**here))
        _execute(_GENERATIONS.format(**here, **_not_named_in(_GENERATIONS)))
    moment = _moment(f"{now - NUM_AUDIT_RECORDS * 60} + i * 60")
    _execute(_AUDIT.format(numbers=_numbers(1, NUM_AUDIT_RECORDS), moment=moment))
    AuditHead.objects.update_or_create(pk=1, defaults={"number": NUM_AUDIT_RECORDS, "mark": "x"})
    _execute("ANALYZE")
    if connection.vendor == "sqlite":
        connection.close()  # the next one is as the service has it


def _make_people() -> list[User]:
    User.objects.create_superuser("bench@example.org")
    people = User.objects.bulk_create(
        User(email=f"person{number}@example.org", name=f"Person {number}")
        for number in range(NUM_PEOPLE)
    )
    Group.objects.create(name="half").user_set.set(people[::2])
    ApiKey.objects.bulk_create(
        ApiKey(user=person, name=f"key {n}", prefix=f"sk-{person.pk}-{n}", key_hash="x")
        for person in people
        for n in range(KEYS_EACH)
    )
    HostedModel.objects.bulk_create(
        HostedModel(name=f"model-{number}", path="/") for number in range(NUM_MODELS)
    )
    return people


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _not_named_in(sql: str) -> dict[str, str]:
    """The other columns of generations that must not be empty, and their defaults."""
    others = {
        field.column: repr(field.get_default())
        for field in Generation._meta.fields
        if field.column is not None and not field.null and field.column not in sql
    }
    return {
        "others": "".join(f", {column}" for column in others),
        "defaults": "".join(f", {default}" for default in others.values()),
    }


def _numbers(first: int, last: int) -> str:
    if connection.vendor == "sqlite":
        counting = f"SELECT {first} AS i UNION ALL SELECT i + 1 FROM n WHERE i < {last}"
        return f"(WITH RECURSIVE n(i) AS ({counting}) SELECT i FROM n) AS numbers"
    return f"generate_series({first}::bigint, {last}::bigint) AS numbers(i)"


def _uuid(number: str) -> str:
    if connection.vendor == "sqlite":
        return f"printf('%032x', {number})"
    return f"lpad(to_hex({number}), 32, '0')::uuid"


def _moment(unix_seconds: str) -> str:
    if connection.vendor == "sqlite":
        return f"datetime({unix_seconds}, 'unixepoch')"
    return f"to_timestamp({unix_seconds})"
