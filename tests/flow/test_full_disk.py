"""A full disk under the database or Redis: streams go on or wait, what is new fails clearly."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import psutil
import pytest
from openai import InternalServerError, OpenAI

from engine import wire
from engine.transport.connection import connect
from tests.flow.asking import RunningAnswer, ask, fresh_prompt, sure_answer
from tests.stack import Stack

pytestmark = pytest.mark.stack
LONG = 600


@contextlib.contextmanager
def redis_without_room(stack: Stack) -> Iterator[None]:
    """It refuses to write, as on a full disk, for want of memory."""
    with connect(wire.default_redis_url(str(stack.data_dir))) as redis:
        redis.config_set("maxmemory", 1)
        try:
            yield
        finally:
            redis.config_set("maxmemory", 0)


@contextlib.contextmanager
def database_without_room(stack: Stack) -> Iterator[None]:
    """No file of whoever writes rows may grow."""
    writers = [psutil.Process(stack.pid_of(name)) for name in ("web", "ledger")]
    usual = [process.rlimit(psutil.RLIMIT_FSIZE) for process in writers]
    for process, (_, most) in zip(writers, usual, strict=True):
        process.rlimit(psutil.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        for process, limits in zip(writers, usual, strict=True):
            process.rlimit(psutil.RLIMIT_FSIZE, limits)


def check_refusal(client: OpenAI, model: str) -> None:
    with pytest.raises(InternalServerError) as refused:
        ask(client, model, fresh_prompt())
    assert refused.value.status_code == 503
    assert int(refused.value.response.headers["retry-after"]) >= 1


def test_streams_outlast_a_redis_that_cannot_write(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    prompt, undisturbed = sure_answer(client, endless, max_tokens=LONG)
    stream = RunningAnswer(client, endless, prompt, max_tokens=LONG)
    stream.wait_for_chunks(5)
    with redis_without_room(stack):
        check_refusal(client, endless)
        assert stream.is_running
    assert stream.text() == undisturbed
    stack.wait_ready()
    assert ask(client, endless, fresh_prompt(), max_tokens=5)
    stack.wait_settled()


@pytest.mark.skipif("DATABASE_URL" in os.environ, reason="the database is another process's")
@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="limits of a running process")
def test_streams_end_over_a_full_database_and_are_booked_later(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    prompt, undisturbed = sure_answer(client, endless, max_tokens=LONG)
    stack.wait_settled()
    booked = stack.num_usage_records
    stream = RunningAnswer(client, endless, prompt, max_tokens=LONG)
    stream.wait_for_chunks(5)
    with database_without_room(stack):
        check_refusal(client, endless)
        assert stream.text() == undisturbed
        assert stack.num_usage_records == booked
    stack.wait_until(lambda: stack.num_usage_records == booked + 1, "booked")
    assert ask(client, endless, fresh_prompt(), max_tokens=5)
    stack.wait_settled()
