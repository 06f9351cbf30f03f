"""The client against a server whose times are known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.bench.answers import Answer
from tests.bench.background import running_streams
from tests.bench.calibration import client_errors, null_server
from tests.bench.exchange import Question, Target
from tests.bench.load import check_answer, run_load
from tests.bench.null_server import STEP_SECONDS
from tests.bench.report import BenchmarkFailed

NUM_TOKENS = 20


@pytest.fixture(scope="module")
def server() -> Iterator[Target]:
    with null_server() as target:
        yield target


def test_every_token_of_every_stream_is_noted_and_never_before_it_was_sent(server: Target) -> None:
    errors = client_errors(server, streams=4, tokens=NUM_TOKENS)
    assert len(errors) == 4 * NUM_TOKENS
    assert min(errors) > 0


def test_a_load_counts_the_tokens_that_the_server_counted(server: Target) -> None:
    question = Question(prompt="-", max_tokens=NUM_TOKENS)
    load = run_load(server, [[question, question], [question, question]])
    assert load.tokens == 4 * NUM_TOKENS
    assert len(load.ttfts) == 4
    assert load.seconds >= 2 * (NUM_TOKENS - 1) * STEP_SECONDS


def test_streams_are_closed_when_the_measurement_beside_them_ends(server: Target) -> None:
    async def measure() -> bool:
        endless = Question(prompt="-", max_tokens=100_000)
        async with running_streams(server, [endless, endless]) as streams:
            pass
        await asyncio.gather(*(stream.is_over.wait() for stream in streams))
        return all(stream.recording.arrivals for stream in streams)

    assert asyncio.run(measure())


def test_a_background_stream_that_ends_spoils_the_measurement(server: Target) -> None:
    async def measure() -> None:
        short = Question(prompt="-", max_tokens=1)
        async with running_streams(server, [short]) as (stream,):
            await stream.is_over.wait()

    with pytest.raises(BenchmarkFailed, match="ended too early"):
        asyncio.run(measure())


def answer(**changes: object) -> Answer:
    whole = {
        "status": 200,
        "started_at": 0.0,
        "ended_at": 1.0,
        "text": "a",
        "text_at": (0.5,),
        "prompt_tokens": 1,
        "cached_tokens": 0,
        "completion_tokens": 8,
        "finish_reason": "length",
        "error": "",
    }
    return Answer(**{**whole, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "flaw",
    [{"completion_tokens": 7, "finish_reason": "stop"}, {"error": "status 503"}, {"text_at": ()}],
)
def test_an_answer_that_is_not_whole_is_not_counted(flaw: dict[str, object]) -> None:
    target, question = Target(name="x", port=1, model="m"), Question(prompt="-", max_tokens=8)
    check_answer(target, answer(), question)
    with pytest.raises(BenchmarkFailed, match="x"):
        check_answer(target, answer(**flaw), question)
