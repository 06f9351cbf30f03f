"""Looks at an installation after its processes were killed: is every account right?"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine import wire
from hosting.engine_client import EngineClient
from tests.bench.fault_people import Person, Seen
from tests.stack import Stack

_ENDS = (wire.Finished, wire.Failed, wire.Refused)
_MINUTE = datetime.timedelta(minutes=1)
# The title of the last conversation may be under way
_GENERATIONS = """SELECT id, user_id, state, created_at, finished_at FROM hosting_generation
    WHERE kind <> 'title' OR state NOT IN ('queued', 'running')"""
_LINES = """SELECT generation_id, user_id, completion_tokens, charged_tokens,
    prompt_tokens + completion_tokens, kind, created_at FROM accounts_usagerecord"""


def faults_in(stack: Stack, people: Sequence[Person], seen: Iterable[Seen]) -> list[str]:
    """One sentence each; none when all is right."""
    generations = stack.rows(_GENERATIONS)
    lines = stack.rows(_LINES)
    return [
        *_unsettled(generations, lines),
        *_unlike_the_streams(stack, lines),
        *_unlike_what_was_told(seen, lines),
        *_unlike_budgets(stack, people, lines),
        *_passed_limits(people, generations),
    ]


def _unsettled(generations: list[Any], lines: list[Any]) -> Iterator[str]:
    """Every generation ended, and has one line."""
    numbers: dict[str, int] = defaultdict(int)
    for line in lines:
        numbers[_hex(line[0])] += 1
    for pk, _, state, *_ in generations:
        if state in ("queued", "running"):
            yield f"{pk} is still {state}"
        if numbers.pop(_hex(pk), 0) != 1:
            yield f"{pk} does not have one ledger line"
    yield from (f"line {one} has no generation" for one in numbers)


def _unlike_the_streams(stack: Stack, lines: list[Any]) -> Iterator[str]:
    """Redis keeps what was delivered for ten minutes after the end."""
    client = EngineClient(wire.default_redis_url(str(stack.data_dir)))
    for pk, _, tokens, *_ in lines:
        numbered = client.read_events(_dashed(pk))
        if not numbered:
            continue
        seqs = [seq for seq, _ in numbered]
        if seqs != list(range(len(seqs))):
            yield f"{pk}: its events have gaps or come twice"
        events = [event for _, event in numbered]
        deltas = [event for event in events if isinstance(event, wire.Delta)]
        delivered = sum(len(delta.token_ids) for delta in deltas)
        if delivered != tokens:
            yield f"{pk}: {delivered} tokens delivered, {tokens} in the ledger"
        ends = [one for one in events if isinstance(one, _ENDS)]
        if len(ends) != 1 or ends[0] is not events[-1]:
            yield f"{pk} ended {len(ends)} times"


def _unlike_what_was_told(seen: Iterable[Seen], lines: list[Any]) -> Iterator[str]:
    booked = {_hex(line[0]): line[2] for line in lines}
    for one in seen:
        if one.generation and one.generation not in booked:
            yield f"{one.generation} was answered, and is not in the ledger"
        elif one.tokens is not None and booked[one.generation] != one.tokens:
            yield f"{one.generation}: told {one.tokens}, booked {booked[one.generation]}"


def _unlike_budgets(stack: Stack, people: Sequence[Person], lines: list[Any]) -> Iterator[str]:
    charged: dict[str, int] = defaultdict(int)
    for _, user_id, _, tokens, whole, kind, _ in lines:
        charged[f"user:{user_id}"] += tokens
        if tokens != (0 if kind == "internal" else whole):
            yield f"a line of {whole} tokens charges {tokens}"
    spent = dict(
        stack.rows(
            "SELECT subject, sum(tokens) FROM accounts_spending "
            "WHERE subject LIKE 'user:%' GROUP BY subject"
        )
    )
    for subject, tokens in charged.items():
        if int(spent.get(subject, 0)) != tokens:
            yield f"{subject}: charged {tokens}, spent {spent.get(subject, 0)}"
    for person in people:
        budget = person.limits.get("tokens_per_day")
        if budget is not None and charged[f"user:{person.pk}"] > budget:
            yield f"user:{person.pk} spent more than {budget}"


def _passed_limits(people: Sequence[Person], generations: list[Any]) -> Iterator[str]:
    for person in people:
        own = [row for row in generations if row[1] == person.pk]
        spans = [(_moment(row[3]), _moment(row[4])) for row in own if row[4] is not None]
        most = person.limits.get("max_concurrent")
        if most is not None and (found := _most_at_once(spans)) > most:
            yield f"user:{person.pk} had {found} at once, may have {most}"
        a_minute = person.limits.get("requests_per_minute")
        if a_minute is not None and (found := _most_in_a_minute(spans)) > a_minute:
            yield f"user:{person.pk} began {found} in a minute, may begin {a_minute}"


def _most_at_once(spans: list[tuple[datetime.datetime, datetime.datetime]]) -> int:
    changes = sorted([(end, -1) for _, end in spans] + [(begin, 1) for begin, _ in spans])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _most_in_a_minute(spans: list[tuple[datetime.datetime, datetime.datetime]]) -> int:
    begins = sorted(begin for begin, _ in spans)
    return max(
        (sum(begin <= other < begin + _MINUTE for other in begins) for begin in begins), default=0
    )


def _moment(value: Any) -> datetime.datetime:
    return datetime.datetime.fromisoformat(value) if isinstance(value, str) else value


def _hex(pk: Any) -> str:
    return str(pk).replace("-", "")


def _dashed(pk: Any) -> str:
    plain = _hex(pk)
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))
