"""Redis dies and comes back with nothing. Who waited for a first token is answered all the same."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from openai import OpenAI

from tests.flow.asking import RunningAnswer, fresh_prompt, request, start_all
from tests.flow.chat_page import ChatPage
from tests.flow.test_model_settings import change
from tests.stack import Stack
from tests.waiting import wait_until

pytestmark = pytest.mark.stack
NUM_WAITING = 4
TOKENS = 5
NUM_IN_ORDER = 3
LINES = "SELECT generation_id, completion_tokens FROM accounts_usagerecord WHERE id > {}"


@pytest.fixture
def narrow(stack: Stack, endless: str) -> Iterator[str]:
    """A model that answers one at a time."""
    ((rows,),) = stack.rows(f"SELECT max_rows FROM hosting_hostedmodel WHERE name = '{endless}'")
    change(stack, endless, max_rows=1)
    yield endless
    change(stack, endless, max_rows=rows)


class Waiting:
    """A stream that a thread reads: which places it was told, and whether its answer has begun."""

    def __init__(self, client: OpenAI, model: str) -> None:
        self.places: list[int] = []
        self.has_begun = False
        asked = client.chat.completions.with_streaming_response
        self._answer = asked.create(
            **request(model, fresh_prompt(), max_tokens=12_000), stream=True
        ).__enter__()
        threading.Thread(target=self._read, daemon=True).start()

    def leave(self) -> None:
        self._answer.close()

    def _read(self) -> None:
        with contextlib.suppress(Exception):  # it was left
            for line in self._answer.iter_lines():
                if line.startswith(": queued "):
                    self.places.append(int(line.split()[2]))
                self.has_begun = self.has_begun or '"delta":{"content":' in line


def test_who_waits_is_answered_once(stack: Stack, client: OpenAI, narrow: str) -> None:
    stack.wait_settled()
    ((before,),) = stack.rows("SELECT coalesce(max(id), 0) FROM accounts_usagerecord")
    first = RunningAnswer(client, narrow, fresh_prompt(), max_tokens=12_000)
    first.wait_for_chunks(1)
    prompts = [fresh_prompt() for _ in range(NUM_WAITING)]
    waiting = start_all(client, narrow, prompts, max_tokens=TOKENS)
    with ChatPage(stack) as page:
        sent = page.send("Count the stars.", model=narrow, seed=3)
        page.follow(sent)
        stack.lose_redis()
        first.leave()
        assert page.answer_of(sent)
    assert all(one.text() for one in waiting)
    stack.wait_settled()
    lines = stack.rows(LINES.format(before))
    assert [tokens for _, tokens in lines].count(TOKENS) == NUM_WAITING
    assert len({pk for pk, _ in lines}) == len(lines)


def test_who_waits_keeps_the_place_and_is_told_it_again(
    stack: Stack, client: OpenAI, narrow: str
) -> None:
    stack.wait_settled()
    first = RunningAnswer(client, narrow, fresh_prompt(), max_tokens=12_000)
    first.wait_for_chunks(1)
    waiting: list[Waiting] = []
    for _ in range(NUM_IN_ORDER):
        waiting.append(one := Waiting(client, narrow))
        wait_until(lambda one=one: bool(one.places))  # type: ignore[misc]
    told = [one.places[-1] for one in waiting]
    assert told == [1, 2, 3]
    for one in waiting:
        one.places.clear()
    stack.lose_redis()
    wait_until(lambda: [one.places[-1:] for one in waiting] == [[place] for place in told])
    for number, leaving in enumerate([first, *waiting[:-1]], start=1):
        leaving.leave()
        wait_until(partial(have_begun, waiting, number))
        assert [one.has_begun for one in waiting] == [place <= number for place in told]
    waiting[-1].leave()


def have_begun(waiting: list[Waiting], number: int) -> bool:
    return sum(one.has_begun for one in waiting) >= number
