"""Redis, intake, ledger, Celery and the web process die: each comes back, nothing is lost."""

from __future__ import annotations

import pytest
from openai import OpenAI

from tests.flow.asking import RunningAnswer, ask, fresh_prompt, sure_answer
from tests.flow.chat_page import ChatPage
from tests.stack import Stack

pytestmark = pytest.mark.stack
LONG = 600


def test_an_answer_outlives_a_killed_redis(stack: Stack, client: OpenAI, endless: str) -> None:
    prompt, undisturbed = sure_answer(client, endless, max_tokens=LONG)
    running = RunningAnswer(client, endless, prompt, max_tokens=LONG)
    running.wait_for_chunks(20)
    old = stack.kill("redis")
    assert running.text() == undisturbed
    stack.wait_restarted("redis", old)


def test_a_request_finds_a_new_intake(stack: Stack, client: OpenAI, endless: str) -> None:
    old = stack.kill("intake")
    assert ask(client, endless, fresh_prompt(), max_tokens=5)
    stack.wait_restarted("intake", old)


def test_what_ended_while_the_ledger_was_away_is_booked_once(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    stack.wait_settled()
    before = stack.num_usage_records
    old = stack.kill("ledger")
    for _ in range(3):
        ask(client, endless, fresh_prompt(), max_tokens=5)
    stack.wait_restarted("ledger", old)
    stack.wait_settled()
    assert stack.num_usage_records == before + 3


@pytest.mark.parametrize("name", ["celery", "beat"])
def test_background_work_comes_back(stack: Stack, name: str) -> None:
    stack.wait_restarted(name, stack.kill(name))


def test_a_page_misses_nothing_when_the_web_process_dies(stack: Stack, endless: str) -> None:
    with ChatPage(stack) as page:
        undisturbed = page.answer_of(page.send("Count the stars.", model=endless, seed=3))
        generation = page.send("Count the stars.", model=endless, seed=3)
        page.follow(generation)
        page.read_events(30)
        old = stack.kill("web")
        stack.wait_restarted("web", old)
        page.reconnect()
        assert page.answer_of(generation) == undisturbed
        assert page.seqs(generation) == list(range(len(page.seqs(generation))))
