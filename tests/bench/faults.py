"""Processes are killed at random while several people ask; afterwards every account must be right.

Requests of both kinds, whole and streamed, some left in the middle, by people who meet each kind of
limit. A seed decides who asks what and which process dies when.
"""

from __future__ import annotations

import random
import sys
import threading
import time

from tests.bench.fault_accounts import faults_in
from tests.bench.fault_people import Asker, ChatAsker, Turnstile, make_people
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, text_table
from tests.stack import Stack, running_stack
from tests.tiny_models import tiny_model_path

VICTIMS = ("web", "engine", "redis", "intake", "ledger")
REQUESTS_BETWEEN_KILLS = (40, 120)
MODEL = "endless"
_SETTLE_SECONDS = 300.0


def run(options: Options) -> Report:
    with running_stack(HEARTH_MAX_CONCURRENT="64") as stack:
        stack.manage("add_model", str(tiny_model_path("tiny-qwen3")), "--name", MODEL)
        return hurt(stack, num_requests=options.requests, seed=options.seed)


def hurt(
    stack: Stack,
    *,
    num_requests: int,
    seed: int,
    between_kills: tuple[int, int] = REQUESTS_BETWEEN_KILLS,
) -> Report:
    """Ask and kill until `num_requests` were answered, then look. Raises BenchmarkFailed."""
    turnstile = Turnstile(num_requests)
    chance = random.Random(seed)
    people = make_people(stack, num_requests)
    askers: list[Asker | ChatAsker] = [
        Asker(stack, person, MODEL, turnstile, seed=chance.getrandbits(32))
        for person in people
        for _ in range(person.num_askers)
    ]
    askers.append(ChatAsker(stack, MODEL, turnstile, seed=chance.getrandbits(32)))
    threads = [threading.Thread(target=asker.run, daemon=True) for asker in askers]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    kills = _kill(stack, turnstile, chance, between_kills)
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - started
    stack.wait_ready()
    stack.wait_settled(seconds=_SETTLE_SECONDS)
    faults = faults_in(stack, people, [seen for asker in askers for seen in asker.seen])
    if faults:
        raise BenchmarkFailed("\n".join(faults[:20]))
    return _report(stack, turnstile, kills, seconds)


def _kill(
    stack: Stack, turnstile: Turnstile, chance: random.Random, between: tuple[int, int]
) -> dict[str, int]:
    """Every process at least once before any dies again."""
    kills = dict.fromkeys(VICTIMS, 0)
    at = 0
    while True:
        at += chance.randint(*between)
        if not turnstile.wait_for(at):
            return kills
        fewest = min(kills.values())
        victim = chance.choice([name for name in VICTIMS if kills[name] == fewest])
        print(f"{turnstile.num_answered} answered; killing {victim}", file=sys.stderr, flush=True)
        old = stack.kill(victim)
        kills[victim] += 1
        stack.wait_restarted(victim, old)


def _report(stack: Stack, turnstile: Turnstile, kills: dict[str, int], seconds: float) -> Report:
    ends = stack.rows(
        'SELECT "end", error_code, count(*), sum(completion_tokens) FROM accounts_usagerecord '
        "GROUP BY 1, 2"
    )
    rows = [[str(cell) for cell in row] for row in sorted(ends)]
    report = Report(tables=[text_table(["end", "error", "requests", "tokens"], rows)])
    counts = {
        "requests answered": turnstile.num_answered,
        "requests refused by limits": turnstile.num_refused,
        "requests told that nothing serves": turnstile.num_unserved,
        "connections cut": turnstile.num_cut,
        **{f"{name} killed": number for name, number in kills.items()},
    }
    report.results = [
        Result(name=name, value=number, unit="", better="higher") for name, number in counts.items()
    ]
    report.results.append(Result(name="time", value=seconds, unit="s", better="lower"))
    report.tables.append(text_table(["what", "number"], [[k, str(v)] for k, v in counts.items()]))
    errors = [[what, str(number)] for what, number in turnstile.errors.most_common()]
    report.tables.append(text_table(["error", "number"], errors))
    report.results.append(
        Result(
            name="accepted and not answered",
            value=turnstile.errors.total(),
            unit="",
            better="lower",
            bar=0,
        )
    )
    for name in ("lines that differ from tokens delivered", "reservations held", "limits passed"):
        report.results.append(Result(name=name, value=0, unit="", better="lower", bar=0))
    return report
