"""Redis dies and comes back with nothing. Who waited for a first token is answered all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.flow.asking import RunningAnswer, fresh_prompt, start_all
from tests.flow.chat_page import ChatPage
from tests.flow.test_model_settings import change
from tests.stack import Stack

pytestmark = pytest.mark.stack
NUM_WAITING = 4
TOKENS = 5
LINES = "SELECT generation_id, completion_tokens FROM accounts_usagerecord WHERE id > {}"


@pytest.fixture
def narrow(stack: Stack, endless: str) -> Iterator[str]:
    """A model that answers one at a time."""
    ((rows,),) = stack.rows(f"SELECT max_rows FROM hosting_hostedmodel WHERE name = '{endless}'")
    change(stack, endless, max_rows=1)
    yield endless
    change(stack, endless, max_rows=rows)


def lose_redis(stack: Stack) -> None:
    """Killed, and nothing is left of what it had written."""
    for file in (stack.data_dir / "redis").rglob("appendonly*.*"):
        file.unlink()
    stack.wait_restarted("redis", stack.kill("redis"))


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
        lose_redis(stack)
        first.leave()
        assert page.answer_of(sent)
    assert all(one.text() for one in waiting)
    stack.wait_settled()
    lines = stack.rows(LINES.format(before))
    assert [tokens for _, tokens in lines].count(TOKENS) == NUM_WAITING
    assert len({pk for pk, _ in lines}) == len(lines)
