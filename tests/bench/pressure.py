"""A thousand random requests near a limit that moves: nothing dies, nothing is without an end.

The engine's loop in process, with intake's check of memory: everything but Redis. `tiny` has two
layers, so that the copy of one, when rows join or grow, is half of all caches; `deep` has eight.
More is asked for at any time than the limit has room for. What is in use is what MLX says: its
peak in every turn, or its active and its unused buffers after it, whichever is more. After the
limit has gone down the old one counts for a few turns, as rows must leave first.

Three figures say how full it is. `used_mean` is over all turns. What the next slice computes with
must be free while rows only decode, so `used_round_mean` is of the most in each round from one
slice to the next. `held_mean` leaves out unused buffers and what a step computes with.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx

from engine import wire
from engine.assembly import build_worker
from engine.config import EngineConfig
from engine.core.delivery import Delivery
from engine.intake.memory_check import MemoryCheck
from engine.intake.refusal import Refusal
from engine.metrics import Vitals
from engine.prefixes import Prefixes
from tests.bench.engine_loop import DirectTransport
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result
from tests.bench.stats import percentile
from tests.own_memory import OwnMemory
from tests.tiny_models import tiny_model_path

NAME = "bench"
NUM_REQUESTS = 1_000
MIB = 1024**2
MODELS = {"tiny": ("tiny-qwen3", 16 * MIB), "deep": ("tiny-deep", 40 * MIB)}  # room for rows
MOVES = (0.9, 1.0, 1.1)
OPEN_REQUESTS = 40
PROMPTS = (20, 60, 150, 300, 600, 900, 1500)
LARGE_PROMPT, LARGE_EVERY = 5_000, 50
ANSWERS = (1, 8, 30, 80, 300, 600)  # without the long ones rows never hold what there is room for
ABOVE, TURNS_TO_SETTLE = 1.02, 8
FALSE_BAR, USED_BAR = 0.01, 0.85
GIVE_UP_SECONDS = 3600.0


class PressedEngine:
    """A worker with one loaded model and an injected limit."""

    def __init__(self, folder: Path, model: str, limit_bytes: int) -> None:
        self._path = str(tiny_model_path(model))
        config = EngineConfig(
            name=NAME, redis_url="", data_dir=folder, memory_limit_bytes=limit_bytes
        )
        self.memory = OwnMemory(ceiling_bytes=limit_bytes)
        self.prefixes = Prefixes(config, ceiling_bytes=self.memory.ceiling_bytes)
        self.vitals = Vitals(engine_name=NAME, memory=self.memory)
        self.transport = DirectTransport()
        self.worker = build_worker(
            config,
            transport=self.transport,
            memory=self.memory,
            vitals=self.vitals,
            prefixes=self.prefixes,
        )
        self.intake = MemoryCheck(lambda: [self.vitals.status()])
        self.ends: dict[str, wire.Event] = {}
        self.started: list[str] = []
        self.num_paused = 0
        self.has_sliced = False
        self.set_limit(limit_bytes)
        self.transport.inbox.append(wire.LoadModel(name=NAME))

    def set_limit(self, limit_bytes: int) -> None:
        spec = wire.ModelSpec(name=NAME, path=self._path, max_rows=32)
        self.limit_bytes = limit_bytes
        self.transport.inbox.append(
            wire.Configure(models=(spec,), memory_limits={NAME: limit_bytes})
        )

    def ask(self, work: wire.Work) -> None:
        try:
            work = self.intake.check(work, param="prompt")
        except Refusal as refusal:
            self.ends[work.request_id] = refusal.refused
            return
        self.transport.inbox.append(Delivery(work=work, fence=1, attempt=1, next_seq=1))

    def turn(self) -> tuple[int, int]:
        """What was in use at most, and what is held after it."""
        self.memory.peaks.forget()
        self.worker.turn()
        published, self.transport.published = self.transport.published, []
        self.has_sliced = any(isinstance(event, wire.Prefilled) for _, event in published)
        for request_id, event in published:
            if isinstance(event, wire.Started):
                self.started.append(request_id)
            self.num_paused += isinstance(event, wire.Paused)
            if isinstance(event, wire.TERMINAL_EVENTS):
                self.ends[request_id] = event
        readings = self.memory.read()
        most_bytes = max(readings.peak_bytes, readings.active_bytes + readings.pool_bytes)
        return most_bytes, readings.active_bytes


@dataclasses.dataclass(slots=True)
class Seen:
    """Shares of the limit, turn by turn; `used`, `held` and `rounds` where requests waited."""

    peaks: list[float] = dataclasses.field(default_factory=list)
    used: list[float] = dataclasses.field(default_factory=list)
    held: list[float] = dataclasses.field(default_factory=list)
    rounds: list[float] = dataclasses.field(default_factory=list)
    num_moves: int = 0

    def note(self, used: float, held: float, *, has_sliced: bool) -> None:
        self.used.append(used)
        self.held.append(held)
        if has_sliced or not self.rounds:
            self.rounds.append(used)
        self.rounds[-1] = max(self.rounds[-1], used)


def run(options: Options) -> Report:
    num_requests = options.rounds or NUM_REQUESTS
    asked = [one.request_id for one in works_of(num_requests)]
    found: list[Result] = []
    for name in options.models or tuple(MODELS):
        with pressed_engine(name) as engine:
            seen = press(engine, num_requests)
        for one in results(engine, seen, asked):
            found.append(dataclasses.replace(one, name=f"{name}.{one.name}"))
    return Report(results=found)


@contextlib.contextmanager
def pressed_engine(name: str) -> Iterator[PressedEngine]:
    """Its model is loaded; the limit leaves so much beside the weights."""
    model, room_bytes = MODELS[name]
    before_bytes = mx.set_memory_limit(1 << 60)
    with tempfile.TemporaryDirectory(prefix="hearth-bench-pressure-") as folder:
        engine = PressedEngine(Path(folder), model, 2 * room_bytes)
        try:
            while not any(one.state == "loaded" for one in engine.vitals.status().models):
                engine.turn()
            engine.set_limit(engine.memory.read().active_bytes + room_bytes)
            engine.turn()
            yield engine
        finally:
            engine.prefixes.close()
            mx.set_memory_limit(before_bytes)


def press(engine: PressedEngine, num_requests: int) -> Seen:
    chooser, seen, works = random.Random(7), Seen(), works_of(num_requests)
    usual = engine.limit_bytes
    limits = collections.deque([usual], maxlen=TURNS_TO_SETTLE)
    num_asked, give_up_at = 0, time.monotonic() + GIVE_UP_SECONDS
    while len(engine.ends) < num_requests:
        if time.monotonic() > give_up_at:
            raise BenchmarkFailed(f"{num_requests - len(engine.ends)} requests have no end")
        while num_asked < num_requests and num_asked - len(engine.ends) < OPEN_REQUESTS:
            engine.ask(next(works))
            num_asked += 1
            if num_asked % 100 == 0:
                print(f"  {num_asked} asked", file=sys.stderr)
        if chooser.random() < 0.005:
            engine.set_limit(int(usual * chooser.choice(MOVES)))
            seen.num_moves += 1
        most = max(*limits, engine.limit_bytes)
        used, held = (num_bytes / most for num_bytes in engine.turn())
        limits.append(engine.limit_bytes)
        seen.peaks.append(used)
        if num_asked < num_requests:
            seen.note(used, held, has_sliced=engine.has_sliced)
    return seen


def works_of(num_requests: int) -> Iterator[wire.Work]:
    chooser = random.Random(3)
    for number in range(num_requests):
        is_large = number % LARGE_EVERY == LARGE_EVERY - 1
        length = LARGE_PROMPT if is_large else chooser.choice(PROMPTS)
        yield wire.Work(
            request_id=f"{'large' if is_large else 'r'} {number}",
            model=NAME,
            tenant="bench",
            priority=wire.Priority.API,
            submitted_at=0.0,
            accepted_at=0.0,
            sampling=wire.Sampling(seed=number, temperature=0.8),
            prompt_token_ids=tuple(chooser.randrange(10, 4000) for _ in range(length)),
            max_tokens=chooser.choice(ANSWERS),
        )


def results(engine: PressedEngine, seen: Seen, asked: list[str]) -> list[Result]:
    refused = [one for one in engine.ends.values() if not isinstance(one, wire.Finished)]
    without = set(asked) - engine.ends.keys()
    above = [one for one in seen.peaks if one > ABOVE]
    used, held, rounds = seen.used or [0.0], seen.held or [0.0], seen.rounds or [0.0]
    return [
        _figure("requests", len(asked), "requests"),
        _figure("limit_moves", seen.num_moves, "moves"),
        _figure("deaths", 0, "deaths", bar=0),
        _figure("turns_above_limit", len(above), "turns", bar=0),
        _figure("highest_peak", max(seen.peaks), "limit", bar=ABOVE),
        _figure("requests_without_end", len(without), "requests", bar=0),
        _figure("false_refusals", len(refused) / len(asked), "share", bar=FALSE_BAR),
        _figure("used_mean", sum(used) / len(used), "limit", "higher", bar=USED_BAR),
        _figure("used_p10", percentile(used, 0.1), "limit", "higher"),
        _figure("used_round_mean", sum(rounds) / len(rounds), "limit", "higher"),
        _figure("held_mean", sum(held) / len(held), "limit", "higher"),
        _figure("paused", engine.num_paused, "times"),
        _figure("large_passed_most", passes_of_large(engine, asked), "requests", bar=16),
    ]


def passes_of_large(engine: PressedEngine, asked: list[str]) -> int:
    """Of the large requests, by how many younger ones at most were they passed."""
    place = {name: number for number, name in enumerate(asked)}
    passes = [
        sum(place[one] > place[large] for one in engine.started[:number])
        for number, large in enumerate(engine.started)
        if large.startswith("large")
    ]
    return max(passes, default=0)


def _figure(
    name: str, value: float, unit: str, better: str = "lower", *, bar: float | None = None
) -> Result:
    return Result(
        name=name,
        value=value,
        unit=unit,
        better="lower" if better == "lower" else "higher",
        bar=bar,
    )
