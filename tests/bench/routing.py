"""What it costs Redis that several engines share a queue: the scripts' time per request.

    python -m tests.bench.routing [--redis URL] [--tokens 20000]

Needs a Redis of its own, which it empties. Each request is one more turn of a conversation.
"""

from __future__ import annotations

import argparse
import random
import statistics

import msgspec

from engine import wire
from tests.engine.transport.rig import Rig, emit
from tests.makers import make_finished, make_work

NUM_REQUESTS, TURN_TOKENS = 400, 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/0")
    parser.add_argument("--tokens", type=int, default=20_000)
    options = parser.parse_args()
    rig = Rig(options.redis)
    for names in (["one", "two"], ["one", "two", "three", "four"]):
        plain = measure(rig, names, options.tokens, is_routed=False)
        routed = measure(rig, names, options.tokens, is_routed=True)
        told = (f"{what} {routed[what]:.0f} us, {plain[what]:.0f} without" for what in routed)
        print(f"{len(names)} engines, {options.tokens} tokens a prompt: {'; '.join(told)}")


def measure(rig: Rig, names: list[str], num_tokens: int, *, is_routed: bool) -> dict[str, float]:
    """Microseconds of admission and of all engines' pulls, in the median of all requests."""
    rig.redis.flushall()
    engines = [rig.engine(name) for name in names]
    list(rig.intake.entries(wait_ms=1))  # makes its group
    rng = random.Random(1)
    prompt = [rng.randrange(1 << 20) for _ in range(num_tokens)]
    admit_us, pull_us = [], []
    for number in range(NUM_REQUESTS):
        for name in names:
            rig.redis.set(wire.Keys.engine(name), "a beat")
            if is_routed:
                rig.scripts("reach", name, "demo", 1 << 20)
        rig.submit(str(number))
        rig.redis.config_resetstat()
        admit(rig, prompt + [number] * TURN_TOKENS, is_routed=is_routed)
        admit_us.append(script_us(rig))
        # All are woken, and ask in turns
        has = [engine for engine in engines if engine.pull({"demo": 8})]
        pull_us.append(script_us(rig))
        emit(has[0], str(number), make_finished())
    return {"admit": statistics.median(admit_us), "pull": statistics.median(pull_us)}


def admit(rig: Rig, prompt: list[int], *, is_routed: bool) -> None:
    for entry in rig.intake.entries():
        work = make_work(wire.decode(entry.message))
        work = msgspec.structs.replace(work, prompt_token_ids=tuple(prompt))
        rig.intake.admit(entry, work, wire.ModelSpec(name="demo", path="/"), is_routed=is_routed)


def script_us(rig: Rig) -> float:
    """Since the last call."""
    spent = float(rig.redis.info("commandstats")["cmdstat_evalsha"]["usec"])
    rig.redis.config_resetstat()
    return spent


if __name__ == "__main__":
    main()
