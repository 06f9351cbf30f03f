"""Streams that keep decoding while something else is measured beside them.

It does not know what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence

from tests.bench.exchange import Exchange, Question, Target, open_exchange
from tests.bench.load import (
    ANSWER_TIMEOUT_SECONDS,
    CONNECT_STAGGER_SECONDS,
    ask_among_others,
)
from tests.bench.report import BenchmarkFailed

ENDLESS_TOKENS = 12_000  # longer than any measurement beside it; fits the models' context


@contextlib.asynccontextmanager
async def running_streams(
    target: Target, questions: Sequence[Question], *, may_end: bool = False
) -> AsyncIterator[list[Exchange]]:
    """All answers have begun when the block is entered; all are hung up when it is left.

    Raises BenchmarkFailed when one has ended by itself, for then nothing ran beside it; unless it
    `may_end`.
    """
    exchanges = [await open_exchange(target, question) for question in questions]
    try:
        await asyncio.wait_for(_all_have_text(exchanges), ANSWER_TIMEOUT_SECONDS)
        yield exchanges
        if not may_end and any(exchange.is_over.is_set() for exchange in exchanges):
            raise BenchmarkFailed(f"{target.name}: a background stream ended too early")
    finally:
        for exchange in exchanges:
            exchange.close()
    await _settle(target)


@contextlib.asynccontextmanager
async def busy_streams(
    target: Target, ask: Callable[[str], Question], *, count: int
) -> AsyncIterator[None]:
    """`count` streams that ask one question after the other until the block is left.

    All have asked when it is entered; their last answers have ended after it.
    """
    is_over = asyncio.Event()

    async def stream(number: int) -> None:
        for place in itertools.count():
            if is_over.is_set():
                return
            await ask_among_others(target, ask(f"busy {number} {place}"))

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(stream(number))
            await asyncio.sleep(CONNECT_STAGGER_SECONDS)
        try:
            yield
        finally:
            is_over.set()


async def _settle(target: Target) -> None:
    """A question that is answered when the streams that were hung up have left their rows."""
    await ask_among_others(target, Question(prompt="Still there?", max_tokens=4))


async def _all_have_text(exchanges: Sequence[Exchange]) -> None:
    for exchange in exchanges:
        await exchange.has_text.wait()
