"""An agent's loop with its sub-agents and too small a cache: tokens found / an unlimited oracle.

    main loop     a preamble, then 20 turns that each add a tool's result; the answers stay
    sub-agents    after each turn one with a shared preamble, a task of its own, and three calls

Both tiers hold a quarter of what the whole loop stores. In the second run the engine restarts half
way; what counts is what it finds afterwards. Engine in process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tests.bench.cache_jobs import OFF, CacheJobs, cache_jobs, tokens
from tests.bench.models import model_path
from tests.bench.options import Options
from tests.bench.report import Report, ratio

NUM_TURNS = 20
SUB_CALLS = 3
PREAMBLE_TOKENS = 2_000
RESULT_TOKENS = 240
SUB_PREAMBLE_TOKENS = 600
TASK_TOKENS = 500
ANSWER_TOKENS = 24
LIVE_BAR = 0.90
RESTARTED_BAR = 0.85
LEAST_TOKENS = 32  # fewer are computed at once; the oracle does not count them either


@dataclasses.dataclass(slots=True)
class Thread:
    """One agent's conversation as it grows by answers and results."""

    prompt: list[int]

    def go_on(self, answer: list[int], result: list[int]) -> None:
        self.prompt = [*self.prompt, *answer, *result]


class Oracle:
    """A cache without limits: all prefixes of everything that was ever computed."""

    def __init__(self) -> None:
        self._computed: list[list[int]] = []

    def find(self, prompt: list[int]) -> int:
        longest = max((_common(prompt, one) for one in self._computed), default=0)
        found = min(longest, len(prompt) - 1)
        return found if found >= LEAST_TOKENS else 0

    def note(self, computed: list[int]) -> None:
        self._computed.append(computed)


def run(options: Options) -> Report:
    num_turns = options.rounds or NUM_TURNS
    report = Report()
    for model in options.models or ("tiny",):
        with cache_jobs(model_path(model)) as engine:
            engine.start(disk_bytes=OFF)
            _found_over_oracle(engine, f"{model} whole", num_turns)
            quarter = engine.status().memory.used_bytes // 4
            engine.start(memory_bytes=quarter, disk_bytes=quarter)
            live = _found_over_oracle(engine, f"{model} live", num_turns)
            restarted = _found_over_oracle(
                engine, f"{model} restarted", num_turns, restart_with=quarter
            )
        report.results += [
            ratio(f"{model}.found_over_oracle", live, better="higher", bar=LIVE_BAR),
            ratio(
                f"{model}.found_over_oracle_after_restart",
                restarted,
                better="higher",
                bar=RESTARTED_BAR,
            ),
        ]
    return report


def _found_over_oracle(
    engine: CacheJobs, label: str, num_turns: int, *, restart_with: int | None = None
) -> float:
    oracle = Oracle()
    found = wanted = 0
    for turn, thread, result in _calls(label, num_turns):
        if restart_with is not None and turn == num_turns // 2:
            engine.start(memory_bytes=restart_with, disk_bytes=restart_with)
            restart_with, found, wanted = None, 0, 0
        fared = engine.ask(thread.prompt, max_tokens=ANSWER_TOKENS)
        found += fared.cached_tokens
        wanted += oracle.find(thread.prompt)
        oracle.note([*thread.prompt, *fared.token_ids[:-1]])
        thread.go_on(fared.token_ids, result)
    return found / wanted


def _calls(label: str, num_turns: int) -> Iterator[tuple[int, Thread, list[int]]]:
    """Turn by turn: whose prompt is asked, and what it goes on with afterwards."""
    main = Thread(tokens(f"{label} preamble", PREAMBLE_TOKENS))
    sub_preamble = tokens(f"{label} sub preamble", SUB_PREAMBLE_TOKENS)
    for turn in range(num_turns):
        yield turn, main, tokens(f"{label} result {turn}", RESULT_TOKENS)
        sub = Thread([*sub_preamble, *tokens(f"{label} task {turn}", TASK_TOKENS)])
        for call in range(SUB_CALLS):
            yield turn, sub, tokens(f"{label} sub {turn} {call}", RESULT_TOKENS)


def _common(left: list[int], right: list[int]) -> int:
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return at
    return min(len(left), len(right))
