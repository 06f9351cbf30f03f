"""The engine dies or hangs in the middle of answers: they go on to the same text."""

from __future__ import annotations

import itertools
import os
import signal
import time

import httpx2
import psutil
import pytest
from openai import OpenAI

from tests.flow.asking import (
    PATIENCE_SECONDS,
    RunningAnswer,
    ask,
    fresh_prompt,
    request,
    start_all,
    sure_answer,
    sure_answers,
)
from tests.flow.hung_thread import hang_computing_thread
from tests.stack import Stack

pytestmark = pytest.mark.stack
LONG = 600
LONG_PROMPT_WORDS = 2700  # five tokens each: some slices more than are learnt from, if all are full
LEARNT_PIECES = 5  # the first ones of a model may take long
MOST_HANGING_SECONDS = 5.5  # 5, and what the test itself takes to see it
SAMPLED = {"temperature": 0.8, "top_p": 0.9, "seed": 42}


def test_answers_outlive_a_killed_engine(stack: Stack, client: OpenAI, endless: str) -> None:
    prompts, undisturbed = sure_answers(client, endless, 4, max_tokens=LONG)
    running = start_all(client, endless, prompts, max_tokens=LONG)
    check_outlives(stack, running, undisturbed)


def test_a_drawn_answer_outlives_a_killed_engine(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    prompt = fresh_prompt()
    undisturbed = ask(client, endless, prompt, max_tokens=LONG, **SAMPLED)
    running = start_all(client, endless, [prompt], max_tokens=LONG, **SAMPLED)
    check_outlives(stack, running, [undisturbed])


def check_outlives(stack: Stack, running: list[RunningAnswer], undisturbed: list[str]) -> None:
    for one in running:
        one.wait_for_chunks(20)
    old = stack.kill("engine")
    assert [one.text() for one in running] == undisturbed
    assert {one.finish_reason for one in running} == {"length"}
    stack.wait_restarted("engine", old)


def test_a_hanging_engine_is_seen_within_five_seconds_and_replaced(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    prompt, undisturbed = sure_answer(client, endless, max_tokens=LONG)
    running = RunningAnswer(client, endless, prompt, max_tokens=LONG)
    running.wait_for_chunks(20)
    old = stack.kill("engine", signal.SIGSTOP)
    stopped_at = time.monotonic()
    stack.wait_until(lambda: stack.readiness()[0] == 503, "red")
    assert time.monotonic() - stopped_at <= 5.0
    assert running.text() == undisturbed
    stack.wait_restarted("engine", old)
    with pytest.raises(ProcessLookupError):
        os.kill(old, 0)


def test_an_engine_that_beats_and_computes_nothing_is_replaced(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    prompt, undisturbed = sure_answer(client, endless, max_tokens=LONG)
    running = RunningAnswer(client, endless, prompt, max_tokens=LONG)
    running.wait_for_chunks(20)
    old = stack.pid_of("engine")
    hang_computing_thread(old)
    seconds = stack.wait_until(lambda: not psutil.pid_exists(old), "ended")
    assert "work but no progress" in stack.output()
    assert seconds <= MOST_HANGING_SECONDS
    assert running.text() == undisturbed
    stack.wait_restarted("engine", old)


def test_an_engine_that_hangs_in_the_middle_of_a_prompt_is_replaced(
    stack: Stack, client: OpenAI, api_key: str, endless: str
) -> None:
    prompt, undisturbed = sure_answer(client, endless, max_tokens=LONG)
    running = RunningAnswer(client, endless, prompt, max_tokens=LONG)
    words = " ".join(f"word{number}" for number in range(LONG_PROMPT_WORDS))
    with httpx2.stream(
        "POST",
        f"{stack.base_url}/v1/chat/completions",
        json=request(endless, f"{fresh_prompt()} {words}", max_tokens=4, stream=True),
        headers={"Authorization": f"Bearer {api_key}"},
        timeout=PATIENCE_SECONDS,
    ) as answer:
        lines = answer.iter_lines()
        pieces = (line for line in lines if line.startswith(": prefill "))
        assert len(list(itertools.islice(pieces, LEARNT_PIECES))) == LEARNT_PIECES
        old = stack.pid_of("engine")
        hang_computing_thread(old)
        seconds = stack.wait_until(lambda: not psutil.pid_exists(old), "ended")
        assert seconds <= MOST_HANGING_SECONDS
        assert any("[DONE]" in line for line in lines)
    assert running.text() == undisturbed
    stack.wait_restarted("engine", old)


def test_an_engine_that_is_asked_to_end_gives_its_answers_to_the_next(
    stack: Stack, client: OpenAI, endless: str
) -> None:
    prompt, undisturbed = sure_answer(client, endless, max_tokens=LONG)
    running = RunningAnswer(client, endless, prompt, max_tokens=LONG)
    running.wait_for_chunks(20)
    old = stack.kill("engine", signal.SIGTERM)
    assert running.text() == undisturbed
    stack.wait_restarted("engine", old)
