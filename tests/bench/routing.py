"""What is found, and what it costs Redis, where several engines share a queue.

Found: tokens of agents' prompts on two engines by what one engine finds (the real queue and caches,
rows by a clock: tests/engine/transport/test_affinity.py). Cost: the scripts' time for each request,
beyond what it takes where engines know nothing of each other.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from engine import wire
from tests.bench.options import Options
from tests.bench.report import Report, Result, ratio
from tests.engine.transport.rig import Rig, emit
from tests.engine.transport.test_affinity import Team
from tests.makers import make_finished, make_work
from tests.redis_process import RedisProcess

NUM_REQUESTS, TURN_TOKENS = 300, 600
PROMPT_TOKENS = (2_000, 20_000)
NAMES = ("one", "two")
COST_BAR_US = 50.0


def run(options: Options) -> Report:
    report = Report()
    with own_redis() as rig:
        for num_rows in (8, 2):
            alone = Team(rig, "one", num_rows=2 * num_rows).run()
            found = Team(rig, *NAMES, num_rows=num_rows).run() / alone
            name = f"found with {num_rows} rows each"
            report.results.append(ratio(name, found, better="higher", bar=0.95))
        for num_tokens in PROMPT_TOKENS:
            num_requests = options.rounds or NUM_REQUESTS
            plain = script_us(rig, num_tokens, num_requests, is_routed=False)
            routed = script_us(rig, num_tokens, num_requests, is_routed=True)
            for what, us in routed.items():
                name = f"{what}, {num_tokens} tokens"
                report.results += [cost(name, us - plain[what]), whole(name, us)]
    return report


def cost(name: str, us: float) -> Result:
    return Result(name=f"more for {name}", value=us, unit="us", better="lower", bar=COST_BAR_US)


def whole(name: str, us: float) -> Result:
    return Result(name=name, value=us, unit="us", better="lower")


@contextmanager
def own_redis() -> Iterator[Rig]:
    with tempfile.TemporaryDirectory() as folder:
        redis = RedisProcess(Path(folder))
        redis.start()
        try:
            yield Rig(redis.url)
        finally:
            redis.stop()


def script_us(rig: Rig, num_tokens: int, num_requests: int, *, is_routed: bool) -> dict[str, float]:
    """Of admission and of both engines' pulls: what the fastest tenth of turns of conversations
    stays below, for other programs only add to it."""
    rig.redis.flushall()
    rig = Rig(rig.url)  # whose intake knows that its group is gone
    engines = [rig.engine(name) for name in NAMES]
    list(rig.intake.entries(wait_ms=1))  # makes its group
    rng = random.Random(1)
    prompt = [rng.randrange(1 << 20) for _ in range(num_tokens)]
    admissions, pulls = [], []
    for number in range(num_requests):
        for name in NAMES:
            rig.redis.set(wire.Keys.engine(name), "a beat")
            if is_routed:
                rig.scripts("reach", name, "demo", 1 << 20)
        rig.submit(str(number))
        rig.redis.config_resetstat()
        admit(rig, prompt + [number] * TURN_TOKENS, is_routed=is_routed)
        admissions.append(spent_us(rig))
        has = [engine for engine in engines if engine.pull({"demo": 8})]  # all are woken
        pulls.append(spent_us(rig))
        emit(has[0], str(number), make_finished())
    return {"admission": fastest_tenth(admissions), "pulls": fastest_tenth(pulls)}


def fastest_tenth(values: list[float]) -> float:
    return statistics.quantiles(values, n=10)[0]


def admit(rig: Rig, prompt: list[int], *, is_routed: bool) -> None:
    for entry in rig.intake.entries():
        work = make_work(wire.decode(entry.message))
        work = msgspec.structs.replace(work, prompt_token_ids=tuple(prompt))
        rig.intake.admit(entry, work, wire.ModelSpec(name="demo", path="/"), is_routed=is_routed)


def spent_us(rig: Rig) -> float:
    """In scripts, since the last call."""
    spent = float(rig.redis.info("commandstats")["cmdstat_evalsha"]["usec"])
    rig.redis.config_resetstat()
    return spent
