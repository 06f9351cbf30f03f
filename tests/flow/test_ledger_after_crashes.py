"""Whatever dies in the middle of answers, the ledger has what was computed, and nothing is held."""

from __future__ import annotations

import contextlib

import pytest
from openai import OpenAI, OpenAIError

from tests.flow.asking import RunningAnswer, fresh_prompt, start_all
from tests.stack import Stack

pytestmark = pytest.mark.stack
TOKENS = 1200
SEEN = 5
LEDGER = "accounts_usagerecord"


def sum_of(stack: Stack, column: str, table: str, where: str = "1 = 1") -> int:
    return int(stack.rows(f"SELECT coalesce(sum({column}), 0) FROM {table} WHERE {where}")[0][0])


def finish(one: RunningAnswer) -> None:
    """A killed web process cuts its streams, and what they belong to is cancelled."""
    with contextlib.suppress(OpenAIError, AssertionError, OSError):
        one.text()


@pytest.mark.parametrize("victim", ["engine", "ledger", "redis", "web"])
def test_ledger_budgets_and_tokens_agree(
    stack: Stack, client: OpenAI, endless: str, victim: str
) -> None:
    stack.wait_settled()
    before = stack.rows(f"SELECT coalesce(max(id), 0) FROM {LEDGER}")[0][0]
    running = start_all(client, endless, [fresh_prompt() for _ in range(4)], max_tokens=TOKENS)
    for one in running:
        one.wait_for_chunks(SEEN)
    old = stack.kill(victim)
    stack.wait_restarted(victim, old)
    for one in running:
        finish(one)
    stack.wait_settled()
    lines = stack.rows(f'SELECT completion_tokens, "end" FROM {LEDGER} WHERE id > {before}')
    least = SEEN if victim == "web" else TOKENS
    assert len(lines) == 4 and all(least <= tokens <= TOKENS for tokens, _ in lines)
    assert all((end == "cancelled") == (tokens < TOKENS) for tokens, end in lines)
    charged = sum_of(stack, "charged_tokens", LEDGER)
    spent = sum_of(stack, "tokens", "accounts_spending", "subject LIKE 'user:%'")
    assert (
        charged
        == spent
        == sum_of(stack, "prompt_tokens + completion_tokens", LEDGER, "kind <> 'internal'")
    )
    held = "state IN ('queued', 'running')"
    assert sum_of(stack, "reserved_tokens", "hosting_generation", held) == 0
