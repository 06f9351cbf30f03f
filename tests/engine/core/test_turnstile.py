"""A large request that waits for memory while small ones come without end."""

from __future__ import annotations

import random

from engine.core.grouping import least_padded
from engine.core.limits import Limits
from engine.core.pacing import Pace, TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence, Status
from engine.core.turnstile import MOST_PASSES, Turnstile
from engine.row_memory import Admission
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import QWEN3_8B
from tests.fakes import make_work

GIB = 1024**3
ESTIMATE = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=True))
ROOM_BYTES = 6 * GIB


class Model:
    """A model whose rows end after a while; memory is what they take, parted where that is less."""

    def __init__(self) -> None:
        pace = Pace(max_rows=16, stall_seconds=0.1, decode_share=0.5)
        self.scheduler = Scheduler(pace, TimeLedger())
        self.ages: dict[str, int] = {}

    @property
    def row_bytes(self) -> int:
        lengths = [len(one.token_ids) + 100 for one in self.scheduler.rows]
        return sum(rows * ESTIMATE.row_bytes(most) for rows, most in least_padded(lengths))

    def add(self, name: str, prompt_tokens: int) -> Sequence:
        work = make_work(name, prompt=range(prompt_tokens), max_tokens=100)
        sequence = Sequence(work, delivered_token_ids=(), arrived_at=0.0)
        self.scheduler.add(sequence)
        return sequence

    def turn(self, turnstile: Turnstile, *, others_bytes: int, is_quiet: bool) -> list[Sequence]:
        for row in self.scheduler.rows:
            self.ages[row.request_id] = self.ages.get(row.request_id, 0) + 1
            if self.ages[row.request_id] > 20:
                self.scheduler.finish(row)
        free_bytes = ROOM_BYTES - self.row_bytes - others_bytes
        limits = Limits(free_bytes=free_bytes, is_quiet=is_quiet, turnstile=turnstile)
        admission = Admission(ESTIMATE, limits, rows=self.scheduler.rows, row_bytes=self.row_bytes)
        return self.scheduler.admit(admission.may_admit)


class Engine:
    """One or two models that share the memory. Small requests come at every turn."""

    def __init__(self, num_models: int) -> None:
        self.models = [Model() for _ in range(num_models)]
        self.turnstile = Turnstile()
        self.chooser = random.Random(1)
        self.num_small = 0

    def turn(self) -> list[Sequence]:
        admitted = []
        for model in self.models:
            self.num_small += 1
            model.add(f"small {self.num_small}", self.chooser.randint(500, 4000))
            others = sum(one.row_bytes for one in self.models if one is not model)
            is_quiet = not any(one.scheduler.rows for one in self.models)
            admitted += model.turn(self.turnstile, others_bytes=others, is_quiet=is_quiet)
        return admitted

    def passes_until(self, large: Sequence) -> int:
        """How many that came after it were let in before it."""
        num_before, passes = self.num_small, 0
        for _ in range(2000):
            for one in self.turn():
                if one is large:
                    return passes
                passes += int(one.request_id.split()[1]) > num_before
        raise AssertionError("it never got its row")


def test_a_large_request_is_passed_over_a_bounded_number_of_times() -> None:
    for num_models in (1, 2):
        engine = Engine(num_models)
        for _ in range(60):
            engine.turn()
        large = engine.models[0].add("large 0", 30_000)
        assert engine.passes_until(large) <= MOST_PASSES


def test_two_large_ones_get_their_rows_one_after_the_other() -> None:
    engine = Engine(1)
    for _ in range(60):
        engine.turn()
    first, second = (engine.models[0].add(f"large {n}", 30_000) for n in (1, 2))
    assert engine.passes_until(first) <= MOST_PASSES
    assert engine.passes_until(second) <= 2 * MOST_PASSES


def test_one_that_is_cancelled_holds_nobody_up() -> None:
    engine = Engine(1)
    for _ in range(60):
        engine.turn()
    large = engine.models[0].add("large 0", 30_000)
    others = Model().add("others 0", 10)
    is_open_to = engine.turnstile.is_open_to
    while is_open_to(others) or not is_open_to(large) or engine.turn():
        engine.turn()
    assert large.status is Status.WAITING
    engine.models[0].scheduler.finish(large)
    assert any(engine.turn() for _ in range(30))


def test_small_ones_go_before_it_while_it_may_wait() -> None:
    engine = Engine(1)
    for _ in range(60):
        engine.turn()
    engine.models[0].add("large 0", 30_000)
    admitted: list[Sequence] = []
    while len(admitted) < MOST_PASSES // 2:
        admitted += engine.turn()
    assert all(one.request_id.startswith("small") for one in admitted)
