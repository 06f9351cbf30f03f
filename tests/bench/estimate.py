"""What the engine says that rows will take, against the peak that MLX measures.

A mix is a model, rows of some lengths and a slice. It is computed by the engine's own runner: the
prompts one after the other in slices, then all of them together until their caches have grown. The
estimate is made before, with what the mixes before it have taught; the first ones of a model only
teach. Peaks are of everything that MLX has in use, weights included: what counts against a limit.

`--models 8b` needs a GPU, and no file: its weights are random.
"""

from __future__ import annotations

import dataclasses
import gc
import random
import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any

import mlx.core as mx

from engine import wire
from engine.core.slicing import ANY_SHAPE_SCORES
from engine.core.step import Join, Slice, Step
from engine.model import direct_step, kernels
from engine.model.cpu_slices import BLOCK_SCORES
from engine.model.loader import load
from engine.model.memory import DeviceMemory, PeakMeter
from engine.model.runner import Runner
from engine.peaks import MeasuredRunner, ModelPeaks
from engine.sizing.estimate import (
    CPU_CORRECTION,
    CUDA_CORRECTION,
    METAL_CORRECTION,
    Estimate,
    Numbers,
)
from engine.sizing.shape import read_shape, shape_of
from tests.bench.decode import SHAPES, make_model
from tests.bench.options import Options
from tests.bench.report import Report, Result, text_table
from tests.bench.stats import median, percentile
from tests.tiny_models import tiny_model_path

TINY = ("tiny-qwen3", "small-llama", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba")
LARGE = "8b"
DECODED_TOKENS = 8
ERROR_BAR = 0.10
UNDER_BAR = 0.03
_MIB = 1024**2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What mixes are drawn from. `most_tokens`: of all rows of one mix, padding included."""

    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    slices: tuple[int, ...]
    most_tokens: int
    num_mixes: int
    num_lessons: int


TINY_SIZES = Sizes(
    lengths=(40, 150, 300, 700, 1200, 2000),
    rows=(1, 2, 4, 8),
    slices=(32, 128, 256, 512),
    most_tokens=5_000,
    num_mixes=10,
    num_lessons=4,
)
LARGE_SIZES = Sizes(
    lengths=(512, 2_000, 8_000, 20_000, 32_000, 64_000),
    rows=(1, 2, 4, 8, 16, 32, 64),
    slices=(256, 512, 1024, 2048),
    most_tokens=140_000,
    num_mixes=40,
    num_lessons=8,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    lengths: tuple[int, ...]
    slice_tokens: int

    def slices(self, length: int) -> list[tuple[int, int]]:
        """Of a prompt: the batch call takes its last token."""
        starts = range(0, length - 1, self.slice_tokens)
        return [(start, min(start + self.slice_tokens, length - 1)) for start in starts]

    @property
    def words(self) -> str:
        return (
            f"{len(self.lengths)} x {min(self.lengths)}-{max(self.lengths)} / {self.slice_tokens}"
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Bytes; `formula`: what the estimate would be without anything learned."""

    model: str
    mix: Mix
    estimated: int
    formula: int
    measured: int
    weights: int

    @property
    def error(self) -> float:
        return self.estimated / self.measured - 1


def run(options: Options) -> Report:
    report = Report()
    found: list[Found] = []
    for name in options.models or TINY:
        sizes = LARGE_SIZES if name == LARGE else TINY_SIZES
        if options.rounds is not None:
            sizes = dataclasses.replace(sizes, num_mixes=options.rounds)
        model, estimate = open_model(name)
        mixes = list(draw_mixes(name, sizes))
        measured = list(measure(name, model, estimate, mixes))
        found += measured[sizes.num_lessons :]
        del model
        gc.collect()
        mx.clear_cache()
    report.results = results(found)
    report.tables = [table(found)]
    return report


def open_model(name: str) -> tuple[Any, Estimate]:
    """A model on the device with an estimate that has learned nothing yet."""
    on_cpu = mx.default_device() == mx.Device(mx.cpu)
    usual = CPU_CORRECTION if on_cpu else METAL_CORRECTION
    usual = CUDA_CORRECTION if mx.cuda.is_available() else usual
    if name in SHAPES:
        model = make_model(name)
        kernels.bind(model, kernels.wanted())
        shape = shape_of(SHAPES[name])
    else:
        path = tiny_model_path(name)
        *_, last = load(path, casts_to_float32=True)
        assert last.loaded is not None
        model, shape = last.loaded.model, read_shape(path)
    compute_bytes = 2 if mx.cuda.is_available() and name in SHAPES else 4
    numbers = Numbers(
        compute_bytes=compute_bytes,
        may_fuse=not on_cpu,
        together_bytes=DeviceMemory().together_bytes,
        composed_scores=ANY_SHAPE_SCORES if mx.cuda.is_available() else 0,
        block_scores=BLOCK_SCORES if kernels.is_x86_processor() else 0,
    )
    return model, Estimate(shape, numbers, correction=usual)


def draw_mixes(name: str, sizes: Sizes) -> Iterator[Mix]:
    """The lessons first; of the others, the longest row there is comes once for each slice."""
    chooser = random.Random(name)
    for number in range(sizes.num_lessons + sizes.num_mixes):
        slice_tokens = sizes.slices[number % len(sizes.slices)]
        longest = sizes.lengths[(number * 5 + 3) % len(sizes.lengths)]
        most_rows = max(1, sizes.most_tokens // longest)
        rows = chooser.choice([one for one in sizes.rows if one <= most_rows])
        spread = chooser.choice([1.0, 0.9, 0.6])
        shorter = [chooser.randint(int(longest * spread), longest) for _ in range(rows - 1)]
        yield Mix(lengths=(longest, *shorter), slice_tokens=slice_tokens)


def measure(name: str, model: Any, estimate: Estimate, mixes: list[Mix]) -> Iterator[Found]:
    peaks = PeakMeter()
    usual = estimate.correction
    model_peaks = ModelPeaks(estimate, runs_ahead=estimate.numbers.may_fuse)
    plain = Runner(
        model,
        decode=direct_step.found(model),
        token_bytes=bytes,
        together_bytes=estimate.numbers.together_bytes,
    )
    if plain.slice_bytes is not None and estimate.computes_in_blocks:
        model_peaks.know_slices(plain.slice_bytes)
    runner = MeasuredRunner(plain, model_peaks, peaks)
    for number, mix in enumerate(mixes):
        gc.collect()
        mx.synchronize()
        mx.clear_cache()
        weights = mx.get_active_memory()
        estimated = weights + expected_peak(estimate, mix)
        formula = weights + expected_peak(
            Estimate(estimate.shape, estimate.numbers, correction=usual), mix
        )
        measured = compute(runner, mix)
        found = Found(
            model=name,
            mix=mix,
            estimated=estimated,
            formula=formula,
            measured=measured,
            weights=weights,
        )
        words = f"  {name} {number}: {mix.words}: {found.error:+.1%} of {measured / _MIB:.0f} MiB"
        print(f"{words} ({formula / measured - 1:+.1%} by the formula)", file=sys.stderr)
        yield found


def expected_peak(estimate: Estimate, mix: Mix) -> int:
    """Besides the weights: the most of all phases."""
    held, phases = 0, []
    for length in mix.lengths:
        slicing = [estimate.slice_bytes(stop - start, start) for start, stop in mix.slices(length)]
        held += estimate.row_bytes(length, slice_tokens=mix.slice_tokens)
        phases.append(held + max(slicing))
    grown = [length + DECODED_TOKENS for length in mix.lengths]
    stepping = estimate.step_bytes(len(grown), max(grown))
    return max(*phases, max(held, estimate.batch_bytes(grown)) + stepping)


def compute(runner: MeasuredRunner, mix: Mix) -> int:
    """The peak while the mix is computed and leaves again."""
    meter = _Highest()
    for row_id, length in enumerate(mix.lengths):
        for start, stop in mix.slices(length):
            token_ids = (_tokens(row_id, start, stop),)
            one = Slice(row_ids=(row_id,), start_tokens=start, token_ids=token_ids)
            meter.around(runner, Step(slices=(one,)))
    rows = tuple(range(len(mix.lengths)))
    joins = tuple(
        Join(
            row_id=row_id,
            prompt_token_ids=_tokens(row_id, 0, length),
            output_token_ids=(),
            sampling=wire.Sampling(seed=row_id, temperature=0.8, top_p=0.9),
        )
        for row_id, length in enumerate(mix.lengths)
    )
    meter.around(runner, Step(joins=joins, decodes=rows))
    for _ in range(DECODED_TOKENS - 1):
        meter.around(runner, Step(decodes=rows))
    meter.around(runner, Step(leaves=rows))
    meter.around(runner, Step())
    tracemalloc.stop()
    return meter.highest


class _Highest:
    """What MLX and NumPy hold at most. The runner begins the peak anew at some steps."""

    def __init__(self) -> None:
        self.highest = 0
        tracemalloc.start()

    def around(self, runner: MeasuredRunner, step: Step) -> None:
        mx.reset_peak_memory()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        runner.run(step)
        _, highest = tracemalloc.get_traced_memory()
        self.highest = max(self.highest, mx.get_peak_memory() + highest - before)


def _tokens(row_id: int, start: int, stop: int) -> tuple[int, ...]:
    return tuple(10 + (7 * row_id + position) % 3000 for position in range(start, stop))


def results(found: list[Found]) -> list[Result]:
    errors = [one.error for one in found]
    formula = [abs(one.formula / one.measured - 1) for one in found]
    return [
        _figure("mixes", len(found), "mixes", "higher"),
        _figure(
            "error_p95", percentile([abs(one) for one in errors], 0.95), "share", bar=ERROR_BAR
        ),
        _figure("under_estimate_worst", max(0.0, -min(errors)), "share", bar=UNDER_BAR),
        _figure("over_estimate_worst", max(0.0, *errors), "share"),
        _figure("error_median", median([abs(one) for one in errors]), "share"),
        _figure("formula_error_p95", percentile(formula, 0.95), "share"),
    ]


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


def table(found: list[Found]) -> str:
    header = ["model", "rows x tokens / slice", "weights MiB", "measured", "estimated", "error"]
    rows = [
        [
            one.model,
            one.mix.words,
            f"{one.weights / _MIB:.0f}",
            f"{one.measured / _MIB:.1f}",
            f"{one.estimated / _MIB:.1f}",
            f"{one.error:+.1%}",
        ]
        for one in found
    ]
    return text_table(header, rows)
