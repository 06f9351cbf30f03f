"""Web processes are killed, or stand still: only what nobody can come back to is cancelled."""

from __future__ import annotations

import signal
import uuid

import pytest
from openai import OpenAI

from tests.flow.asking import RunningAnswer, fresh_prompt, sure_answer
from tests.flow.chat_page import ChatPage
from tests.flow.test_web_processes import web_processes
from tests.stack import Stack

pytestmark = pytest.mark.stack
TOKENS = 600
MANY_TOKENS = 12_000  # more than are computed before anybody looks
SLOW_TOKENS = 4_000  # seconds of work
CANCELLED_SECONDS = 15.0


def tell_all(stack: Stack, number: int) -> None:
    """Any of them may be the one that tells an answer."""
    for process in web_processes(stack):
        process.send_signal(number)


def has_ended(stack: Stack, answer: RunningAnswer, state: str) -> bool:
    assert answer.id is not None
    name = answer.id.removeprefix("chatcmpl-")
    return stack.num_rows("hosting_generation", f"id = '{name}' AND state = '{state}'") == 1


def test_an_answer_that_nobody_can_hear_is_cancelled_and_others_are_whole(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    prompt, undisturbed = sure_answer(client, endless, max_tokens=TOKENS)
    key = {"Idempotency-Key": uuid.uuid4().hex}
    with ChatPage(stack) as page:
        asked = page.answer_of(page.send("Count the stars.", model=endless, seed=3))
        lost = RunningAnswer(client, endless, fresh_prompt(), max_tokens=MANY_TOKENS)
        lost.wait_for_chunks(5)
        keyed = RunningAnswer(client, endless, prompt, max_tokens=TOKENS, extra_headers=key)
        generation = page.send("Count the stars.", model=endless, seed=3)
        page.follow(generation)
        keyed.wait_for_chunks(5)
        page.read_events(5)
        tell_all(stack, signal.SIGKILL)
        stack.wait_until(
            lambda: has_ended(stack, lost, "cancelled"), "cancelled", seconds=CANCELLED_SECONDS
        )
        stack.wait_ready()
        page.reconnect()
        assert page.answer_of(generation) == asked
    again = RunningAnswer(client, endless, prompt, max_tokens=TOKENS, extra_headers=key)
    assert again.text() == undisturbed
    assert again.id == keyed.id


def test_an_answer_is_whole_though_web_processes_stood_still_until_its_end(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    running = RunningAnswer(client, endless, fresh_prompt(), max_tokens=SLOW_TOKENS)
    running.wait_for_chunks(5)
    tell_all(stack, signal.SIGSTOP)
    try:
        stack.wait_until(lambda: has_ended(stack, running, "done"), "done")
    finally:
        tell_all(stack, signal.SIGCONT)
    running.text()
    assert running.finish_reason == "length"
