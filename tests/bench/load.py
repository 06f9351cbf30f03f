"""Closed-loop load: every stream asks its next question when the last answer has ended.

It does not know whom it measures; what a contestant did is a Load, whichever way it was asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import time
from collections.abc import Iterator, Sequence

from tests.bench.answers import Answer, read_answer
from tests.bench.exchange import Question, Recording, Target, exchange_until_end
from tests.bench.report import BenchmarkFailed
from tests.bench.stats import percentile

ANSWER_TIMEOUT_SECONDS = 120.0
# mlx_lm.server listens with a backlog of 5: streams that connect all at once would wait for TCP's
# retransmission after one second, which says nothing about the engines.
CONNECT_STAGGER_SECONDS = 0.005


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One round's samples. Seconds; `tokens` as the server counted them."""

    tokens: int
    seconds: float
    ttfts: tuple[float, ...]
    gaps: tuple[float, ...]
    texts: tuple[str, ...] = ()

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    def ttft_ms(self, share: float) -> float:
        return 1000 * percentile(self.ttfts, share)

    def gap_ms(self, share: float) -> float:
        return 1000 * percentile(self.gaps, share)


def run_load(target: Target, streams: Sequence[Sequence[Question]]) -> Load:
    """Every stream asks its questions one after the other. A short answer is a BenchmarkFailed."""
    with quiet_collector():
        started_at = time.perf_counter()
        recordings = asyncio.run(run_streams(target, streams))
    answers = [read_answer(recording) for recording in recordings]
    questions = [question for stream in streams for question in stream]
    for answer, question in zip(answers, questions, strict=True):
        check_answer(target, answer, question)
    return Load(
        tokens=sum(answer.completion_tokens for answer in answers),
        seconds=max(answer.ended_at for answer in answers) - started_at,
        ttfts=tuple(answer.ttft for answer in answers),
        gaps=tuple(gap for answer in answers for gap in answer.gaps),
        texts=tuple(answer.text for answer in answers),
    )


def check_answer(target: Target, answer: Answer, question: Question) -> None:
    """An answer counts only when it came whole: no error, and exactly the tokens asked for."""
    if answer.error or answer.status != 200:
        raise BenchmarkFailed(f"{target.name}: {answer.error}")
    if answer.completion_tokens != question.max_tokens or not answer.text_at:
        raise BenchmarkFailed(
            f"{target.name} gave {answer.completion_tokens} of {question.max_tokens} tokens"
            f" (finish_reason {answer.finish_reason})"
        )


def ask(target: Target, question: Question) -> Answer:
    """One question by itself."""
    return asyncio.run(ask_among_others(target, question))


async def ask_among_others(target: Target, question: Question) -> Answer:
    recording = await exchange_until_end(target, question, timeout=ANSWER_TIMEOUT_SECONDS)
    answer = read_answer(recording)
    check_answer(target, answer, question)
    return answer


async def run_streams(target: Target, streams: Sequence[Sequence[Question]]) -> list[Recording]:
    """The recordings of all streams, in the order of the questions."""
    runs = (
        _run_stream(target, questions, start_after=CONNECT_STAGGER_SECONDS * number)
        for number, questions in enumerate(streams)
    )
    return [recording for recordings in await asyncio.gather(*runs) for recording in recordings]


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection while times are taken: a full one takes milliseconds."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _run_stream(
    target: Target, questions: Sequence[Question], *, start_after: float
) -> list[Recording]:
    await asyncio.sleep(start_after)
    return [
        await exchange_until_end(target, question, timeout=ANSWER_TIMEOUT_SECONDS)
        for question in questions
    ]
