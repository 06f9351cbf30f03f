"""How fast a model reads and writes. Kept is what was measured; figures.py makes sense of it.

    reading   prompts of one length that nobody has sent before, one after the other; then the last
              one again, which the prefix cache knows
    writing   short prompts, so many at once; each answer has the same length

Prompts are random tokens, so that their lengths are exact and no cache knows them. The tokens that
end an answer are ruled out, or most would end at once.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hosting.actions.orders import Order
from hosting.actions.outcome import Outcome
from hosting.benchmarks.asking import GREEDY, Asking, Failed, TooLarge
from hosting.benchmarks.model_files import Tokens, UnreadableModel, tokens_of
from hosting.models import Benchmark

# Of two equal models five and five are told apart by luck in 1 of 126 comparisons
READ_TIMES = 5
WRITE_TIMES = 5
WRITE_PROMPT_TOKENS = 128
WRITE_TOKENS = 128
_WARM_UP = 1  # not counted: the model is loaded, kernels are compiled, buffers made
_RULED_OUT = -100.0


def num_steps(benchmark: Benchmark) -> int:
    reading = len(benchmark.prompt_lengths) * (_WARM_UP + READ_TIMES + 1)
    return reading + len(benchmark.streams) * (_WARM_UP + WRITE_TIMES)


def measure(asking: Asking) -> None:
    """Raises Failed, Cancelled, Stopped, BenchmarkChanged."""
    benchmark = asking.benchmark
    if not benchmark.measures_speed:
        return
    try:
        prompts = _Prompts(asking, tokens_of(Path(asking.model.path)))
    except UnreadableModel as fault:
        raise Failed(str(fault)) from fault
    for tokens in benchmark.prompt_lengths:
        reading = _Reading(prompts, tokens)
        _keep(asking, reading, {"kind": "reading", "tokens": tokens})
    for streams in benchmark.streams:
        writing = _Writing(prompts, streams)
        _keep(asking, writing, {"kind": "writing", "streams": streams})


def _keep(asking: Asking, measuring: _Reading | _Writing, what: dict[str, Any]) -> None:
    """`num_done` tells of steps that are left out, too."""
    before = asking.benchmark.num_done
    try:
        found = measuring.measure()
    except TooLarge as reason:
        found = {"skipped": str(reason)}
    num_left = before + measuring.num_steps - asking.benchmark.num_done
    asking.write(num_steps=num_left, speed=[*asking.benchmark.speed, what | found])


class _Prompts:
    """Makes requests of random tokens, and has them answered."""

    def __init__(self, asking: Asking, tokens: Tokens) -> None:
        self._asking = asking
        self._tokens = tokens
        self._random = secrets.SystemRandom()
        bias = tuple((one, _RULED_OUT) for one in tokens.ends)
        self._sampling = dataclasses.replace(GREEDY, logit_bias=bias)
        self._last: list[Order] = []

    def check_room(self, num_tokens: int) -> None:
        """Raises TooLarge."""
        most = self._asking.model.context_limit_tokens or self._tokens.context_limit
        if num_tokens > most:
            raise TooLarge(f"The model takes {most:,} tokens, with the answer.")

    def ask_new(self, number: int, sizes: tuple[int, int], doing: str) -> list[Outcome]:
        """So many at once. `sizes`: tokens of each prompt, and of its answer."""

        def make() -> list[Order]:
            self._last = [self._order(*sizes) for _ in range(number)]
            return self._last

        return self._ask(make, doing)

    def ask_again(self, doing: str) -> list[Outcome]:
        return self._ask(lambda: self._last, doing)

    def _ask(self, make: Callable[[], list[Order]], doing: str) -> list[Outcome]:
        outcomes = self._asking.ask(make, doing=doing, is_timed=True)
        self._asking.write(num_steps=1)
        return outcomes

    def _order(self, prompt_tokens: int, answer_tokens: int) -> Order:
        ids = tuple(self._random.choices(self._tokens.words, k=prompt_tokens))
        return self._asking.order(
            prompt_token_ids=ids, max_tokens=answer_tokens, sampling=self._sampling
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    prompts: _Prompts
    tokens: int
    num_steps = _WARM_UP + READ_TIMES + 1

    def measure(self) -> dict[str, Any]:
        """Raises TooLarge and what asking raises."""
        self.prompts.check_room(self.tokens + 1)
        doing, sizes = f"Reading prompts of {self.tokens:,} tokens", (self.tokens, 1)
        rounds = [self.prompts.ask_new(1, sizes, doing) for _ in range(_WARM_UP + READ_TIMES)]
        (again,) = self.prompts.ask_again(doing)
        cold = [outcome for (outcome,) in rounds[_WARM_UP:]]
        return {
            "ttft": [one.timings.ttft_seconds for one in cold],
            "rates": [_reading_rate(one) for one in cold],
            "warm_ttft": again.timings.ttft_seconds,
            "warm_cached": again.usage.cached_tokens,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class _Writing:
    prompts: _Prompts
    streams: int
    num_steps = _WARM_UP + WRITE_TIMES

    def measure(self) -> dict[str, Any]:
        """Raises TooLarge and what asking raises."""
        self.prompts.check_room(WRITE_PROMPT_TOKENS + WRITE_TOKENS)
        doing = f"Writing {self.streams} at once"
        sizes = (WRITE_PROMPT_TOKENS, WRITE_TOKENS)
        many = range(_WARM_UP + WRITE_TIMES)
        rounds = [self.prompts.ask_new(self.streams, sizes, doing) for _ in many][_WARM_UP:]
        answers = [one for some in rounds for one in some]
        return {
            "totals": [_total_rate(some) for some in rounds],
            "each": [_writing_rate(one) for one in answers],
            "ttft": [one.timings.ttft_seconds for one in answers],
            "wanted": WRITE_TOKENS,
            "shortest": min(one.usage.completion_tokens for one in answers),
        }


def _reading_rate(outcome: Outcome) -> float | None:
    """Tokens a second, of those that were computed."""
    computed = outcome.usage.prompt_tokens - outcome.usage.cached_tokens
    return _rate(computed, outcome.timings.prefill_seconds)


def _writing_rate(outcome: Outcome) -> float | None:
    """The first token belongs to reading."""
    return _rate(outcome.usage.completion_tokens - 1, outcome.timings.decode_seconds)


def _total_rate(outcomes: list[Outcome]) -> float | None:
    """From the first token of the first to the last of the last. All were accepted at one time, but
    for what intake takes for them."""
    begun = min(_begun(one) for one in outcomes)
    ended = max(_begun(one) + one.timings.decode_seconds for one in outcomes)
    return _rate(sum(one.usage.completion_tokens for one in outcomes) - 1, ended - begun)


def _begun(outcome: Outcome) -> float:
    assert outcome.timings.ttft_seconds is not None  # Asking.ask would have asked again
    return outcome.timings.ttft_seconds


def _rate(tokens: int, seconds: float) -> float | None:
    return tokens / seconds if tokens > 0 and seconds > 0 else None
