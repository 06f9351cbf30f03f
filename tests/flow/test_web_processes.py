"""Several web processes behind one address: all of them serve, and one may die unnoticed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from openai import OpenAI

from tests.flow.asking import DEMO_MODEL, RunningAnswer
from tests.stack import MARKS, Stack, running_stack


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(HEARTH_WEB_PROCESSES="2") as running:
        yield running


def web_processes(stack: Stack) -> list[psutil.Process]:
    assert stack.supervisor is not None
    children = psutil.Process(stack.supervisor.pid).children()
    return [child for child in children if MARKS["web"] in " ".join(child.cmdline())]


def statuses(stack: Stack, number: int) -> set[int]:
    with ThreadPoolExecutor(8) as pool:
        return {status for status, _ in pool.map(lambda _: stack.get("/healthz"), range(number))}


def test_both_processes_answer_and_one_may_be_killed(stack: Stack) -> None:
    first, second = web_processes(stack)
    before = [sum(process.cpu_times()[:2]) for process in (first, second)]
    assert statuses(stack, 200) == {200}
    after = [sum(process.cpu_times()[:2]) for process in (first, second)]
    assert all(late > early for early, late in zip(before, after, strict=True))

    first.send_signal(signal.SIGKILL)
    assert statuses(stack, 50) == {200}
    stack.wait_until(lambda: len(web_processes(stack)) == 2, "two web processes again")
    assert second in web_processes(stack)


def test_each_of_them_streams_and_every_answer_is_booked_once(stack: Stack) -> None:
    stack.wait_settled()
    key, before = stack.create_api_key(), stack.num_usage_records
    texts = set()
    for _ in range(6):  # a client each, so a connection each
        with OpenAI(base_url=f"{stack.base_url}/v1", api_key=key, max_retries=0) as client:
            answer = RunningAnswer(client, DEMO_MODEL, "Say hello.", max_tokens=12)
            texts.add(answer.text())
    assert len(texts) == 1
    stack.wait_settled()
    assert stack.num_usage_records == before + 6
