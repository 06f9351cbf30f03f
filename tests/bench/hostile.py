"""Hundreds of bad requests while eight streams run: how soon each is refused, and by what name.

The streams must say what they say undisturbed. The corpus is that of the tests.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any

from tests.bench.answers import read_answer, read_refusal
from tests.bench.exchange import Exchange, Question, Recording, Target
from tests.bench.load import check_answer, quiet_collector, run_streams
from tests.bench.models import model_path
from tests.bench.names import HEARTH
from tests.bench.options import Options
from tests.bench.ours import hearth_service
from tests.bench.prompts import PromptMaker
from tests.bench.report import BenchmarkFailed, Report, Result, milliseconds, ratio
from tests.bench.stats import median, percentile
from tests.hosting.hostile_requests import hostile_requests

NUM_STREAMS = 8
STREAM_TOKENS = 600
SERVED_NAME = "demo"  # as the corpus calls it
MIN_REQUESTS = 200
BAR_MS = 100
_TIMEOUT_SECONDS = 30.0

Case = tuple[str, dict[str, Any], str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Seconds until its last byte. `is_proper`: a 4xx that names the field."""

    seconds: float
    is_proper: bool


def run(options: Options) -> Report:
    report = Report()
    for model in options.models or ("tiny",):
        path = model_path(model)
        with hearth_service() as service:
            target = service.serve(SERVED_NAME, path, max_rows=NUM_STREAMS)
            questions = _questions(PromptMaker(path), model)
            expected = asyncio.run(_undisturbed(target, questions))
            report.results += _measure(model, target, questions, expected, rounds=options.rounds)
    return report


def _questions(prompts: PromptMaker, model: str) -> list[list[Question]]:
    return [
        [
            Question(
                prompt=prompts.prompt(f"{model} hostile {number}", tokens=40),
                max_tokens=STREAM_TOKENS,
            )
        ]
        for number in range(NUM_STREAMS)
    ]


async def _undisturbed(target: Target, questions: list[list[Question]]) -> list[str]:
    return _texts(target, questions, await run_streams(target, questions))


def _texts(
    target: Target, questions: list[list[Question]], recordings: list[Recording]
) -> list[str]:
    answers = [read_answer(recording) for recording in recordings]
    for answer, (question,) in zip(answers, questions, strict=True):
        check_answer(target, answer, question)
    return [answer.text for answer in answers]


def _measure(
    model: str,
    target: Target,
    questions: list[list[Question]],
    expected: list[str],
    *,
    rounds: int | None,
) -> list[Result]:
    """Streams are begun anew until the whole corpus has been sent beside some."""
    cases = list(hostile_requests())
    pending, refusals, num_same, num_texts = iter(cases), [], 0, 0
    with quiet_collector():
        for number in itertools.count():
            found, texts = asyncio.run(_disturbed(target, questions, pending))
            refusals += found
            num_texts += len(texts)
            num_same += sum(map(str.__eq__, texts, expected))
            if len(refusals) == len(cases) or number + 1 == rounds:
                break
    if len(refusals) < MIN_REQUESTS and rounds is None:
        raise BenchmarkFailed(f"only {len(refusals)} requests were sent")
    seconds = [one.seconds for one in refusals]
    return [
        milliseconds(f"{model}.refusal_p50.{HEARTH}", median(seconds)),
        milliseconds(f"{model}.refusal_p99.{HEARTH}", percentile(seconds, 0.99), bar=BAR_MS),
        _share(f"{model}.refused_by_name", sum(one.is_proper for one in refusals), len(refusals)),
        _share(f"{model}.streams_unchanged", num_same, num_texts),
    ]


def _share(name: str, count: int, total: int) -> Result:
    return ratio(name, count / max(1, total), better="higher", bar=1.0)


async def _disturbed(
    target: Target, questions: list[list[Question]], pending: Iterator[Case]
) -> tuple[list[Refusal], list[str]]:
    """Those refusals that came while all streams ran, and what the streams said."""
    streams = asyncio.create_task(run_streams(target, questions))
    refusals = []
    while not streams.done() and (case := next(pending, None)) is not None:
        refusals.append(await _refused(target, *case))
    return refusals, _texts(target, questions, await streams)


async def _refused(target: Target, route: str, body: dict[str, Any], field: str) -> Refusal:
    exchange = Exchange(_request(target, route, body))
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: exchange, target.host, target.port)
    try:
        await asyncio.wait_for(exchange.is_over.wait(), _TIMEOUT_SECONDS)
    finally:
        exchange.close()
    recording = exchange.recording
    status, error = read_refusal(recording)
    told = f"{error.get('param')} {error.get('message')}"
    return Refusal(
        seconds=recording.arrivals[-1][0] - recording.started_at,
        is_proper=400 <= status < 500 and field in told,
    )


def _request(target: Target, route: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {route} HTTP/1.1\r\nHost: {target.host}:{target.port}\r\n"
        f"Authorization: Bearer {target.api_key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content
