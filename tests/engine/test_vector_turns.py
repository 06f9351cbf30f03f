"""What turns of vectors learn, and the law that holds in any history of them: every request gets
its own results, each once, and one end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from engine import wire
from engine.core.cost import CostModel
from engine.core.limits import Limits
from engine.core.step import UndefinedNumbers
from engine.sizing.estimate import Estimate, Numbers
from engine.sizing.shape import shape_of
from tests.engine.sizing.configs import QWEN3_8B
from tests.engine.test_vector_handle import PACE, SECONDS_PER_TOKEN, FakeComputer, Long, Rig

SECONDS_PER_PAIR = 1e-6  # of a token and one before it
NUM_HISTORIES = 1500
ESTIMATE = Estimate(shape_of(QWEN3_8B), Numbers(compute_bytes=2, may_fuse=True))
BAD, UNDEFINED = 1, 2  # tokens that break the device, and that lead to no number


class Attentive(FakeComputer):
    """Its time grows with what stands before a token."""

    def run(self, rows: Sequence[tuple[int, ...]]) -> list[Any]:
        longest = max(map(len, rows))
        self._clock.now += len(rows) * longest * longest / 2 * SECONDS_PER_PAIR
        return super().run(rows)

    def go_on(self, long: Long, num_tokens: int) -> list[Any] | None:
        self._clock.now += num_tokens * (long.num_computed + num_tokens / 2) * SECONDS_PER_PAIR
        return super().go_on(long, num_tokens)


def test_what_a_long_row_and_texts_beside_it_cost_is_learned() -> None:
    cost = CostModel()
    rig = Rig(computer=Attentive, cost=cost, stall_ms=50)
    rig.add("long", (1,) * 5000)
    for number in range(10):
        rig.add(f"short{number}", (1,) * 80)
        rig.turn()
        rig.turn()
    rig.finish()
    for tokens, start in ((80, 0), (200, 0), (100, 2000), (100, 4000)):
        pairs = tokens * (start + tokens / 2)
        seconds = tokens * SECONDS_PER_TOKEN + pairs * SECONDS_PER_PAIR
        assert cost.predict(tokens, start=start) == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize("is_quiet", [False, True])
def test_what_does_not_fit_beside_a_long_row_waits_and_the_row_goes_on(is_quiet: bool) -> None:
    rig = Rig(estimate=ESTIMATE, stall_ms=10)
    rig.add("long", (1,) * 500)
    rig.turn()
    rig.add("short", (2,) * 20)
    short_of_memory = Limits(free_bytes=10, is_quiet=is_quiet)
    while "long" not in {name for name, one in rig.events.items() if len(one) > 1}:
        assert "short" not in rig.events
        num_runs = len(rig.computer.runs)
        rig.note(rig.handle.turn(limits=short_of_memory))
        assert len(rig.computer.runs) == num_runs + 1
    rig.finish()
    assert rig.scores("short") == {0: 40}


def test_a_long_row_has_every_other_turn_while_short_texts_keep_coming() -> None:
    rig = Rig(stall_ms=10)
    rig.add("long", (1,) * 400)
    rig.turn()
    num_pieces = 400 // max(rig.computer.runs)
    for number in range(2 * num_pieces):
        rig.add(f"short{number}", (1, 2))
        rig.turn()
    assert rig.scores("long") == {0: 400}


class Moody(FakeComputer):
    """A row's result is its last token. Now and then a turn takes far longer than was foreseen."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.random = random.Random(0)

    def run(self, rows: Sequence[tuple[int, ...]]) -> list[Any]:
        self._compute(rows, max(map(len, rows)))
        return [row[-1] for row in rows]

    def go_on(self, long: Long, num_tokens: int) -> list[Any] | None:
        assert 0 < num_tokens <= long.num_left
        stop = long.num_computed + num_tokens
        self._compute([long.row[long.num_computed : stop]], num_tokens)
        long.num_computed = stop
        return None if long.num_left else [long.row[-1]]

    def event(self, result: Any, *, place: int, dimensions: int | None) -> wire.Event:
        if result == UNDEFINED:
            raise UndefinedNumbers
        return wire.Scored(place=place, score=result)

    def _compute(self, rows: Sequence[tuple[int, ...]], width: int) -> None:
        self._take(len(rows) * width)
        if self.random.random() < 0.05:
            self._clock.now += 5.0
        if any(BAD in row for row in rows):
            raise RuntimeError("the device broke")


class History:
    """Requests come, are cancelled, dropped and given back, while memory and others vary."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rig = Rig(
            computer=Moody,
            estimate=self.random.choice([None, ESTIMATE]),
            stall_ms=self.random.choice([10, 50, 500]),
            max_rows=self.random.choice([1, 4, 16]),
        )
        self.inputs: dict[str, list[tuple[int, ...]]] = {}
        self.dropped: dict[str, int] = {}  # how many events each had until then
        self.cancelled: set[str] = set()
        self.hurried: set[str] = set()

    def run(self) -> None:
        for _ in range(self.random.randrange(4, 16)):
            self.random.choices(
                [self._add, self._turn, self._cancel, self._drop, self._give_back],
                weights=[6, 12, 1, 1, 0.3],
            )[0]()
        self.rig.finish()
        for request_id in self.inputs:
            self._check(request_id)

    def _add(self) -> None:
        request_id = str(len(self.inputs))
        lengths = [self._length() for _ in range(self.random.choice([1, 1, 2, 4]))]
        first = 100 * (len(self.inputs) + 1)
        rows = [(3,) * (length - 1) + (first + place,) for place, length in enumerate(lengths)]
        if self.random.random() < 0.2:
            place = self.random.randrange(len(rows))
            rows[place] = (*rows[place][:-1], self.random.choice([BAD, UNDEFINED]))
        is_hurried = self.random.random() < 0.1
        if is_hurried:
            self.hurried.add(request_id)
        self.inputs[request_id] = rows
        deadline_at = self.rig.clock() + 2.0 if is_hurried else None
        self.rig.add(request_id, *rows, deadline_at=deadline_at)

    def _length(self) -> int:
        return self.random.choice([5, 20, 60, 100, 300, 900]) + self.random.randrange(5)

    def _turn(self) -> None:
        room = ESTIMATE.bundle_bytes(1, self.random.choice([1, 33, 200, 1000]))
        limits = Limits(free_bytes=room, is_quiet=self.random.random() < 0.5)
        others = self.random.choice([None, None, PACE])
        self.rig.note(self.rig.handle.turn(others=others, limits=limits))
        if self.random.random() < 0.5:
            self.rig.ledger.forgive()

    def _cancel(self) -> None:
        if self.inputs:
            request_id = self.random.choice(list(self.inputs))
            self.cancelled.add(request_id)
            self.rig.note(self.rig.handle.cancel(request_id))

    def _drop(self) -> None:
        if self.inputs:
            request_id = self.random.choice(list(self.inputs))
            if self.rig.handle.get_live(request_id) is not None:
                self._leave(request_id)
            self.rig.handle.drop(request_id)

    def _give_back(self) -> None:
        for delivery in self.rig.handle.give_back():
            self._leave(delivery.work.request_id)

    def _leave(self, request_id: str) -> None:
        self.dropped[request_id] = len(self.rig.events.get(request_id, ()))

    def _check(self, request_id: str) -> None:
        events, rows = self.rig.events.get(request_id, []), self.inputs[request_id]
        scored = [(one.place, one.score) for one in events if isinstance(one, wire.Scored)]
        assert len(set(scored)) == len(scored), "a result came twice"
        assert all(rows[place][-1] == score for place, score in scored), "another's result"
        if request_id in self.dropped:
            assert len(events) == self.dropped[request_id], "it is another engine's"
            return
        ends = [one for one in events if isinstance(one, wire.TERMINAL_EVENTS)]
        assert ends == events[-1:], "one end, and nothing behind it"
        is_bad = any(row[-1] in (BAD, UNDEFINED) for row in rows)
        if isinstance(ends[0], wire.Failed):
            assert is_bad or request_id in self.hurried, "it ends for another's failure"
        elif ends[0].reason is wire.FinishReason.CANCELLED:
            assert request_id in self.cancelled
        else:
            assert len(scored) == len(rows) and not is_bad


def test_in_any_history_every_request_gets_its_own_results_and_one_end() -> None:
    for seed in range(NUM_HISTORIES):
        try:
            History(seed).run()
        except AssertionError as error:
            raise AssertionError(f"history {seed}") from error
