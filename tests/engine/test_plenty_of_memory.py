"""Where there is room for several times what rows can ever take, nothing is reckoned: the bound
that says so is above whatever a step really needs."""

from __future__ import annotations

import dataclasses
import random

import pytest

from engine import wire
from engine.core.limits import ALL_FITS, Limits
from engine.core.pacing import Pace, TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence, Status
from engine.core.step import Group, Join, Slice, Step
from engine.handle import ModelHandle
from engine.row_memory import RowMemory, most_bytes, step_bytes
from engine.sizing.estimate import CUDA_CORRECTION, Estimate, Numbers
from engine.sizing.shape import shape_of
from engine.wire import Correction
from tests.engine.sizing.configs import GEMMA_3_27B, MAMBA_2_2B, NEMOTRON_H, QWEN3_8B
from tests.engine.worker_rig import Engine, spec
from tests.fakes import FakeClock, FakeRunner, make_work

GIB = 1024**3
SPEC = wire.ModelSpec(name="m", path="", max_rows=8)
PACE = Pace.of(SPEC, may_batch=True)
NUMBERS = {
    "cpu": Numbers(compute_bytes=4, may_fuse=False),
    "cpu in blocks": Numbers(compute_bytes=4, may_fuse=False, block_scores=2**20),
    "gpu": Numbers(compute_bytes=2, may_fuse=True),
    "gpu together": Numbers(compute_bytes=2, may_fuse=True, together_bytes=GIB),
    "cuda": Numbers(compute_bytes=2, may_fuse=True, together_bytes=GIB, composed_scores=2**19),
}
SHAPES = {"attention": QWEN3_8B, "hybrid": NEMOTRON_H, "states": MAMBA_2_2B, "windows": GEMMA_3_27B}


class PartedRunner(FakeRunner):
    num_bytes = 0
    num_places = 0
    groups: tuple[Group, ...] = ()

    def groups_after(self, step: Step) -> tuple[Group, ...]:
        return self.groups


def a_sequence(chooser: random.Random, number: int) -> Sequence:
    prompt_tokens, max_tokens = chooser.randint(1, 6000), chooser.randint(1, 3000)
    work = make_work(f"r{number}", prompt=range(prompt_tokens), max_tokens=max_tokens)
    told = range(chooser.randint(0, max_tokens - 1))
    return Sequence(work, delivered_token_ids=tuple(told), arrived_at=0.0)


def grow(
    chooser: random.Random, estimate: Estimate, rows: list[Sequence], runner: PartedRunner
) -> None:
    """Rows on their way to their ends, in a batch with free places, whose buffers may be full."""
    for one in rows:
        left = one.num_prompt_tokens + one.max_tokens - len(one.token_ids)
        one.token_ids += [1] * chooser.choice([0, left, chooser.randint(0, left)])
    joined = [one for one in rows if one.status is Status.DECODING]
    longest = max((len(one.token_ids) for one in joined), default=0)
    runner.num_bytes = runner.num_places * estimate.row_bytes(longest)
    runner.growing = ((runner.num_places, longest),) if joined and chooser.random() < 0.5 else ()
    runner.closing_bytes = chooser.choice([0, runner.num_bytes])


def a_step(chooser: random.Random, rows: list[Sequence], *, turn_tokens: int) -> Step:
    joined = [number for number, one in enumerate(rows) if one.status is Status.DECODING]
    apart = [number for number, one in enumerate(rows) if one.status is not Status.DECODING]
    leaves = (99,) if chooser.random() < 0.5 else ()
    if apart and chooser.random() < 0.5:
        width = turn_tokens // len(apart)
        return Step(leaves=leaves, slices=tuple(a_slice(chooser, n, rows[n], width) for n in apart))
    joins = tuple(
        Join(row_id=n, prompt_token_ids=(1,), output_token_ids=(), sampling=wire.Sampling(seed=n))
        for n in apart
    )
    return Step(leaves=leaves, joins=joins, decodes=(*joined, *apart))


def a_slice(chooser: random.Random, row_id: int, row: Sequence, most: int) -> Slice:
    start = chooser.randint(0, len(row.token_ids) - 1)
    width = min(len(row.token_ids) - start, most)
    return Slice(row_ids=(row_id,), start_tokens=start, token_ids=((1,) * width,))


@pytest.mark.parametrize("slice_tokens", [16, 2048])
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_step_takes_more_than_the_bound(shape: str, kind: str, slice_tokens: int) -> None:
    """However far rows have grown since."""
    chooser = random.Random(7)
    correction = CUDA_CORRECTION if kind == "cuda" else None
    estimate = Estimate(shape_of(SHAPES[shape]), NUMBERS[kind], correction=correction)
    pace = dataclasses.replace(PACE, most_slice_tokens=slice_tokens)
    for _ in range(60):
        rows = [a_sequence(chooser, number) for number in range(chooser.randint(1, 12))]
        for one in rows:
            one.status = chooser.choice([Status.DECODING, Status.PREFILLING])
        runner = PartedRunner(FakeClock())
        runner.num_places = sum(one.status is Status.DECODING for one in rows)
        runner.num_places += chooser.randint(0, 3)
        bound = most_bytes(estimate, pace, rows=rows, runner=runner)
        grow(chooser, estimate, rows, runner)
        step = a_step(chooser, rows, turn_tokens=8 * slice_tokens)
        for join in step.joins:
            rows[join.row_id].status = Status.DECODING
        longest = max(len(one.token_ids) for one in rows)
        num_places = runner.num_places + len(step.joins)
        runner.groups = (Group(num_places, longest, moves=chooser.random() < 0.5),)
        assert step_bytes(estimate, step, rows=rows, runner=runner) <= bound


class Asked:
    """Limits that note what room is made for."""

    def __init__(self) -> None:
        self.bytes: list[tuple[int, int]] = []

    def limits(self, free_bytes: int) -> Limits:
        return Limits(
            free_bytes=free_bytes, make_room=lambda needed, kept: self.bytes.append((needed, kept))
        )


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(PACE, TimeLedger())


@pytest.fixture
def estimate() -> Estimate:
    return Estimate(shape_of(QWEN3_8B), NUMBERS["gpu"])


@pytest.fixture
def memory(estimate: Estimate, scheduler: Scheduler) -> RowMemory:
    return RowMemory(estimate, scheduler, FakeRunner(FakeClock()))


def admit(scheduler: Scheduler, prompt_tokens: int) -> None:
    work = make_work(f"r{scheduler.num_admitted}", prompt=range(prompt_tokens), max_tokens=100)
    scheduler.add(Sequence(work, delivered_token_ids=(), arrived_at=0.0))
    assert scheduler.admit()


def held_pace(memory: RowMemory, scheduler: Scheduler, free_bytes: int) -> Pace:
    memory.limit(SPEC, Limits(free_bytes=free_bytes), may_batch=True)
    return scheduler.pace


def test_with_plenty_slices_and_rows_are_as_if_nothing_bounded_them(
    memory: RowMemory, scheduler: Scheduler
) -> None:
    admit(scheduler, 2000)
    limits = Limits(free_bytes=1000 * GIB)
    assert memory.limit(SPEC, limits, may_batch=True) is ALL_FITS
    assert scheduler.pace.most_slice_tokens == PACE.most_slice_tokens
    assert scheduler.pace.most_turn_tokens == 8 * PACE.most_slice_tokens
    assert scheduler.pace.most_row_bytes == 1000 * GIB


def test_what_is_tight_is_reckoned_until_there_is_plenty(
    memory: RowMemory, scheduler: Scheduler
) -> None:
    admit(scheduler, 2000)
    asked = Asked()
    step = Step(slices=(Slice(row_ids=(0,), start_tokens=0, token_ids=((1,) * 8,)),))
    tight = held_pace(memory, scheduler, GIB // 4)
    assert tight.most_slice_tokens < PACE.most_slice_tokens
    memory.make_room(step, asked.limits(GIB // 4), kept_lengths=lambda step: [300])
    plenty = held_pace(memory, scheduler, 1000 * GIB)
    assert plenty.most_slice_tokens == PACE.most_slice_tokens
    memory.make_room(step, asked.limits(1000 * GIB), kept_lengths=lambda step: [300])
    assert held_pace(memory, scheduler, GIB // 4) == tight
    (needed, kept), (most, most_kept) = asked.bytes
    assert 100 * needed < most and kept == most_kept


def test_rows_that_come_are_reckoned(memory: RowMemory, scheduler: Scheduler) -> None:
    limits = Limits(free_bytes=200 * GIB)
    admit(scheduler, 10)
    assert memory.limit(SPEC, limits, may_batch=True) is ALL_FITS
    admit(scheduler, 500_000)
    assert memory.limit(SPEC, limits, may_batch=True) is not ALL_FITS


def test_rows_that_are_known_are_not_reckoned_again(
    memory: RowMemory, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(free_bytes=1000 * GIB)
    admit(scheduler, 10)
    memory.limit(SPEC, limits, may_batch=True)
    monkeypatch.setattr(Estimate, "row_bytes", None)
    assert memory.limit(SPEC, limits, may_batch=True) is ALL_FITS


def test_what_is_learned_is_reckoned(
    memory: RowMemory, scheduler: Scheduler, estimate: Estimate
) -> None:
    limits = Limits(free_bytes=200 * GIB)
    admit(scheduler, 10)
    assert memory.limit(SPEC, limits, may_batch=True) is ALL_FITS
    known_bytes, asked = memory._most_bytes, Asked()
    estimate.correction = Correction(slices=(99.0, 99.0, 99.0), steps=(99.0, 99.0, 99.0))
    memory.make_room(Step(), asked.limits(200 * GIB), kept_lengths=lambda step: [])
    assert asked.bytes[0][0] != known_bytes
    assert memory.limit(SPEC, limits, may_batch=True) is not ALL_FITS


def test_what_leaves_is_kept_though_nobody_else_is_there(
    memory: RowMemory, scheduler: Scheduler, estimate: Estimate
) -> None:
    admit(scheduler, 10)
    memory.limit(SPEC, Limits(free_bytes=1000 * GIB), may_batch=True)
    asked = Asked()
    step = Step(leaves=(0,))
    memory.make_room(step, asked.limits(1000 * GIB), kept_lengths=lambda step: [100_000])
    assert asked.bytes[0][1] == estimate.row_bytes(100_000)


def test_settings_that_change_are_reckoned(memory: RowMemory, scheduler: Scheduler) -> None:
    limits = Limits(free_bytes=200 * GIB)
    admit(scheduler, 2000)
    small = wire.ModelSpec(name="m", path="", most_slice_tokens=64)
    assert memory.limit(small, limits, may_batch=True) is ALL_FITS
    memory.forget_bound()
    large = wire.ModelSpec(name="m", path="", most_slice_tokens=1 << 20)
    assert memory.limit(large, limits, may_batch=True) is not ALL_FITS
    assert scheduler.pace.most_slice_tokens < 1 << 20


def test_a_model_that_is_configured_anew_is_reckoned(estimate: Estimate) -> None:
    engine = Engine(spec("fake", most_slice_tokens=64), ceiling_bytes=200 * GIB)
    engine.ask("a", prompt=range(20_000), max_tokens=5)
    engine.turn(8)
    (handle,) = engine.pool.handles
    assert isinstance(handle, ModelHandle)
    handle.memory = RowMemory(estimate, handle.scheduler, FakeRunner(engine.clock))
    engine.turn()
    assert handle.pace.most_turn_tokens == 8 * 64
    engine.transport.send(wire.Configure(models=(spec("fake", most_slice_tokens=1 << 20),)))
    engine.turn()
    assert 64 < handle.pace.most_slice_tokens < 1 << 20
