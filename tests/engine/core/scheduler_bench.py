"""A scheduler with a fake device, step by step."""

from __future__ import annotations

from engine.core.limits import ALL_FITS
from engine.core.pacing import Pace, TimeLedger
from engine.core.scheduler import Scheduler
from engine.core.sequence import Sequence
from engine.core.step import Step
from tests.fakes import FakeClock, FakeRunner, make_work

PACE = Pace(max_rows=16, stall_seconds=0.05, decode_share=0.5)


class Bench:
    """A scheduler with its runner; sequences end at max_tokens only."""

    def __init__(
        self,
        pace: Pace = PACE,
        runner: type[FakeRunner] = FakeRunner,
        *,
        drawing_share: float | None = None,
    ):
        self.clock = FakeClock()
        self.runner = runner(self.clock)
        self.scheduler = Scheduler(pace, TimeLedger(), drawing_share=drawing_share)
        self.drawn_at: dict[str, list[float]] = {}
        self.steps: list[Step] = []
        self.sequences: dict[str, Sequence] = {}
        self.fitting = ALL_FITS

    def add(
        self, request_id: str, *, prompt_tokens: int, max_tokens: int = 4, **fields: str
    ) -> Sequence:
        prompt = range(1, prompt_tokens + 1)
        work = make_work(request_id, prompt=prompt, max_tokens=max_tokens, **fields)
        sequence = Sequence(work, delivered_token_ids=(), arrived_at=self.clock.now)
        self.sequences[request_id] = sequence
        self.scheduler.add(sequence)
        return sequence

    def turn(self) -> Step:
        self.scheduler.admit()
        step = self.scheduler.schedule(now=self.clock.now, fitting=self.fitting)
        self.steps.append(step)
        for outcome in self.runner.run(step):
            for sequence, _ in self.scheduler.update(outcome):
                self.drawn_at.setdefault(sequence.request_id, []).append(self.clock.now)
                if sequence.num_output_tokens == sequence.max_tokens:
                    self.scheduler.finish(sequence)
        return step

    def run(self, *, at_most: int = 10_000) -> None:
        for _ in range(at_most):
            if self.scheduler.is_idle:
                return
            self.turn()
        raise AssertionError("the scheduler does not come to an end")

    def first_token_seconds(self, request_id: str) -> float:
        return self.drawn_at[request_id][0] - self.sequences[request_id].arrived_at
