"""Decode steps and long prompts of a large random-weight model on one accelerator, in process.

Made for a GPU (`--models 8b`), where no file of that size needs to be there; runs with `tiny`
anywhere. Ours is the handle of a model, from scheduling to events, its words a fake tokenizer's;
the rival is BatchGenerator on the same weights. The limit is what the memory's bandwidth allows.
"""

from __future__ import annotations

import dataclasses
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.generate import BatchGenerator
from mlx_lm.models import qwen3

from engine import wire
from engine.core.pacing import TimeLedger
from engine.handle import ModelHandle
from engine.metrics import Vitals
from engine.model import direct_step, kernels
from engine.model.loader import num_weight_bytes
from engine.model.memory import DeviceMemory
from engine.model.runner import Runner
from tests.bench.names import BATCH_GENERATOR, HEARTH
from tests.bench.options import Options
from tests.bench.report import BenchmarkFailed, Report, Result, milliseconds, ratio
from tests.bench.rounds import Budget, interleave
from tests.bench.stats import median, median_ratio
from tests.fakes import FakeMemory, FakeVoice, make_delivery, make_work
from tests.tiny_models import LARGE, RECIPES

SHAPES: dict[str, dict[str, Any]] = {
    "8b": {**RECIPES[LARGE].config, "vocab_size": 151_936},
    "tiny": {**RECIPES["tiny-qwen3"].config, "vocab_size": 4096},
}
# rows, context: the ratio over BatchGenerator that must be reached
CELLS: dict[str, dict[tuple[int, int], float | None]] = {
    "8b": {(32, 512): 1.5, (64, 512): 1.5, (32, 4096): 2.0},
    "tiny": {(8, 64): None},
}
LENGTHS = ("equal", "unequal")
MEASURED_STEPS = {"8b": 96, "tiny": 16}
VICTIM_TOKENS = {"8b": 32_000, "tiny": 512}
STALL_MS = 250
BANDWIDTH_BYTES = 4 * 1024**3


def run(options: Options) -> Report:
    report = Report()
    for name in options.models or ("tiny",):
        model = make_model(name)
        bandwidth = measure_bandwidth() if mx.cuda.is_available() else None
        budget = Budget(options.seconds, num_parts=len(CELLS[name]) * len(LENGTHS) + 1)
        for (rows, context), bar in CELLS[name].items():
            for lengths in options.lengths or LENGTHS:
                cell = Cell(name=name, model=model, rows=rows, context=context, lengths=lengths)
                rates = cell.measure(options.rounds or 2, deadline=budget.next_deadline())
                report.results += cell.results(rates, bar=bar, bandwidth=bandwidth)
        report.results += victim(name, model)
    return report


def make_model(name: str) -> Any:
    """Seeded weights, in the accelerator's dtype."""
    mx.random.seed(5)
    arguments = qwen3.ModelArgs.from_dict(SHAPES[name])
    model = qwen3.Model(arguments)
    dtype = mx.bfloat16 if mx.cuda.is_available() else mx.float32
    model.update(tree_map(lambda array: array.astype(dtype), model.parameters()))
    mx.eval(model.parameters())
    return model


def measure_bandwidth() -> float:
    """Bytes a second of a copy, those read and those written."""
    source = mx.zeros((BANDWIDTH_BYTES // 4,), mx.float32)
    times = []
    for _ in range(8):
        mx.eval(source)
        began = time.perf_counter()
        mx.eval(source + 1)
        times.append(time.perf_counter() - began)
    return 2 * BANDWIDTH_BYTES / min(times)


class OurLoop:
    """The handle of one model with a batch of rows."""

    def __init__(self, model: Any, *, rows: int, stall_ms: int = STALL_MS) -> None:
        kernels.bind(model, kernels.wanted())
        spec = wire.ModelSpec(name="bench", path="/", max_rows=rows, stall_ms=stall_ms)
        self._handle = ModelHandle(
            spec,
            runner=Runner(
                model,
                decode=direct_step.found(model),
                token_bytes=bytes,
                together_bytes=DeviceMemory().together_bytes,
            ),
            voice=FakeVoice(),
            ledger=TimeLedger(),
            vitals=Vitals(engine_name="bench", memory=FakeMemory()),
        )

    def add(self, key: int, prompt: list[int], max_tokens: int) -> None:
        work = make_work(str(key), prompt=prompt, max_tokens=max_tokens)
        self._handle.add(make_delivery(work))

    def step(self) -> list[int]:
        """The keys of the tokens that came."""
        events = self._handle.turn()
        failed = [event for _, event in events if isinstance(event, wire.Failed)]
        if failed:
            raise BenchmarkFailed(failed[0].detail)
        return [int(key) for key, event in events if isinstance(event, wire.Delta)]


class TheirLoop:
    def __init__(self, model: Any, *, rows: int) -> None:
        kernels.unbind(model)
        self._generator = BatchGenerator(model, completion_batch_size=rows)
        self._keys: dict[int, int] = {}

    def add(self, key: int, prompt: list[int], max_tokens: int) -> None:
        (uid,) = self._generator.insert([prompt], [max_tokens])
        self._keys[uid] = key

    def step(self) -> list[int]:
        _, responses = self._generator.next()
        return [self._keys[one.uid] for one in responses]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """So many rows of about that context decode together."""

    name: str
    model: Any
    rows: int
    context: int
    lengths: str

    def measure(self, rounds: int, *, deadline: float) -> dict[str, list[float]]:
        sides: dict[str, Callable[[int], float]] = {
            HEARTH: lambda number: self._rate(OurLoop(self.model, rows=self.rows), number),
            BATCH_GENERATOR: lambda number: self._rate(
                TheirLoop(self.model, rows=self.rows), number
            ),
        }
        sides[HEARTH](-1)  # the first use of a shape compiles it
        if not _fits(sides[BATCH_GENERATOR]):
            del sides[BATCH_GENERATOR]
        return interleave(sides, rounds=rounds, deadline=deadline)

    def results(
        self, rates: dict[str, list[float]], *, bar: float | None, bandwidth: float | None
    ) -> list[Result]:
        name = f"{self.name}-{self.rows}x{self.context}-{self.lengths}"
        found = [
            Result(
                name=f"{name}.tokens_per_second.{side}",
                value=median(values),
                unit="tok/s",
                better="higher",
            )
            for side, values in rates.items()
        ]
        if BATCH_GENERATOR in rates:
            over = median_ratio(rates[HEARTH], rates[BATCH_GENERATOR])
            found.append(
                ratio(f"{name}.over_rival", over, better="higher", bar=bar, rival=BATCH_GENERATOR)
            )
        if bandwidth is not None:
            limit = self.rows * bandwidth / self._bytes_per_step()
            share = median(rates[HEARTH]) / limit
            found.append(
                Result(
                    name=f"{name}.share_of_bandwidth_limit",
                    value=share,
                    unit="share",
                    better="higher",
                )
            )
        return found

    def _rate(self, loop: OurLoop | TheirLoop, number: int) -> float:
        """Tokens a second while all rows decode."""
        steps = MEASURED_STEPS[self.name]
        for key, prompt in enumerate(self._prompts(number)):
            loop.add(key, prompt, 2 * steps + 100 * self.rows)
        begun: set[int] = set()
        while len(begun) < self.rows:
            begun.update(loop.step())
        for _ in range(4):
            loop.step()
        began, tokens = time.perf_counter(), 0
        while tokens < steps * self.rows:
            tokens += len(loop.step())
        rate = tokens / (time.perf_counter() - began)
        del loop
        release_memory()
        return rate

    def _prompts(self, number: int) -> list[list[int]]:
        chooser = random.Random(f"{self.name} {number}")
        half = self.context // 2
        return [
            make_prompt(
                chooser,
                self.context
                if self.lengths == "equal"
                else chooser.randint(half, self.context + half),
            )
            for _ in range(self.rows)
        ]

    def _bytes_per_step(self) -> int:
        """Weights once, and of each row what it holds (in unequal cells the mean is the same)."""
        shape = SHAPES[self.name]
        weights = num_weight_bytes(self.model)
        embedding = self.model.model.embed_tokens.weight.nbytes  # of it only the rows' lines
        per_token = 2 * shape["num_hidden_layers"] * shape["num_key_value_heads"]
        per_token *= shape["head_dim"] * self.model.model.embed_tokens.weight.dtype.size
        length = self.context + MEASURED_STEPS[self.name] // 2
        return int(weights - embedding + self.rows * length * per_token)


def _fits(rival: Callable[[int], float]) -> bool:
    """Whether the device has the memory that the rival takes; else ours is measured alone."""
    try:
        rival(-1)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        print("the rival runs out of memory", file=sys.stderr)
    else:
        return True
    release_memory()
    return False


def release_memory() -> None:
    """What a loop held that is gone: the next one is not to wait for it, and it lies in cycles."""
    gc.collect()
    mx.clear_cache()


def make_prompt(chooser: random.Random, length: int) -> list[int]:
    return [chooser.randrange(10, 4000) for _ in range(length)]


def victim(name: str, model: Any) -> list[Result]:
    """One row decodes; then a long prompt comes."""
    found = []
    chooser = random.Random(name)
    prompts = [make_prompt(chooser, VICTIM_TOKENS[name]) for _ in range(4)]
    for side, make in (
        (HEARTH, lambda: OurLoop(model, rows=8)),
        (BATCH_GENERATOR, lambda: TheirLoop(model, rows=8)),
    ):
        Victim(make(), chooser).run(prompts[0])  # compiles
        first_token_seconds(make(), prompts[3])  # likewise
        release_memory()
        alone = first_token_seconds(make(), prompts[1])
        release_memory()
        gaps, ttft, base = Victim(make(), chooser).run(prompts[2])
        label = f"{name}-victim-{VICTIM_TOKENS[name]}"
        bar = max(1.3 * STALL_MS, 3000 * base) if side == HEARTH else None
        found += [
            milliseconds(f"{label}.max_gap.{side}", max(gaps), bar=bar),
            milliseconds(f"{label}.base_gap.{side}", base),
            milliseconds(f"{label}.ttft_alone.{side}", alone),
            ratio(f"{label}.ttft_over_alone.{side}", ttft / alone, bar=bar and 2.2),
            ratio(
                f"{label}.speed_kept.{side}",
                base / (sum(gaps) / len(gaps)),
                better="higher",
                bar=bar and 0.45,
            ),
        ]
    return found


def first_token_seconds(loop: OurLoop | TheirLoop, prompt: list[int]) -> float:
    began = time.perf_counter()
    loop.add(0, prompt, 4)
    while not loop.step():
        pass
    return time.perf_counter() - began


class Victim:
    """A row that decodes while a long prompt comes."""

    def __init__(self, loop: OurLoop | TheirLoop, chooser: random.Random) -> None:
        self._loop = loop
        loop.add(0, make_prompt(chooser, 64), 100_000)

    def run(self, prompt: list[int]) -> tuple[list[float], float, float]:
        """The row's gaps meanwhile, the prompt's TTFT, the row's gap before; seconds."""
        times = self._tokens()
        solo = [next(times) for _ in range(40)][8:]
        base = (solo[-1] - solo[0]) / (len(solo) - 1)
        began = last = time.perf_counter()
        self._loop.add(1, prompt, 4)
        gaps = []
        while True:
            came = self._loop.step()
            now = time.perf_counter()
            if 0 in came:
                gaps.append(now - last)
                last = now
            if 1 in came:
                return gaps, now - began, base

    def _tokens(self) -> Iterator[float]:
        while True:
            if 0 in self._loop.step():
                yield time.perf_counter()
