"""Claude Code, Codex and OpenCode, turn by turn: each turn finds the one before in the cache."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx2
import pytest

from tests.hosting import claude_code, codex, opencode
from tests.hosting.hostile_requests import CHAT, MESSAGES, RESPONSES
from tests.stack import Stack

pytestmark = pytest.mark.stack
RULES = "Be careful with the files of other people. " * 60  # more than one block of the cache
MIN_FOUND = 0.95  # of the turn before: its end may lie within a block


def claude_code_turns(rules: str) -> list[dict[str, Any]]:
    """The billing line changes with every prompt."""
    said = claude_code.second_turn()
    more = [{"role": "assistant", "content": "Two."}, {"role": "user", "content": "And?"}]
    turns = [
        claude_code.request(messages, nonce=nonce)
        for nonce, messages in (
            ("0df", claude_code.first_turn()),
            ("d7d", said),
            ("7d4", [*said, *more]),
        )
    ]
    for turn in turns:
        turn["system"][-1]["text"] = rules
    return turns


def codex_turns(rules: str) -> list[dict[str, Any]]:
    turns = (codex.first_turn(), codex.second_turn(), codex.third_turn())
    return [codex.request(turn, instructions=rules) for turn in turns]


def opencode_turns(rules: str) -> list[dict[str, Any]]:
    turns = (opencode.first_turn(), opencode.second_turn(), opencode.third_turn())
    return [opencode.request(turn, system=rules) for turn in turns]


def routed_claude_code_turns(rules: str) -> list[dict[str, Any]]:
    """Its requests after a proxy has made chat completions of them, billing line and all."""
    turns = opencode_turns(rules)
    for nonce, turn in enumerate(turns):
        billing = f"x-anthropic-billing-header: cc_version=2.1.197.{nonce};"
        parts = [{"type": "text", "text": text} for text in (billing, rules)]
        turn["messages"][0]["content"] = parts
    return turns


AGENTS = [
    pytest.param(MESSAGES, claude_code_turns, id="claude-code"),
    pytest.param(CHAT, routed_claude_code_turns, id="claude-code-routed"),
    pytest.param(RESPONSES, codex_turns, id="codex"),
    pytest.param(CHAT, opencode_turns, id="opencode"),
]


@pytest.mark.parametrize(("route", "turns"), AGENTS)
def test_each_turn_finds_the_one_before(
    stack: Stack, api_key: str, endless: str, route: str, turns: Any
) -> None:
    length_before = 0
    for turn in turns(f"{uuid.uuid4()} {RULES}"):
        prompt_tokens, cached_tokens = ask(stack, api_key, route, turn | shorter(route, endless))
        assert cached_tokens >= MIN_FOUND * length_before
        assert prompt_tokens > length_before
        length_before = prompt_tokens


def shorter(route: str, model: str) -> dict[str, Any]:
    limit = "max_output_tokens" if route == RESPONSES else "max_tokens"
    return {"model": model, limit: 4}


def ask(stack: Stack, api_key: str, route: str, body: dict[str, Any]) -> tuple[int, int]:
    """The tokens of the prompt, and those of them that were cached, as the stream tells it."""
    answer = httpx2.post(
        f"{stack.base_url}{route}", json=body, headers={"x-api-key": api_key}, timeout=90
    )
    assert answer.status_code == 200, answer.text
    lines = [
        line.removeprefix("data: ") for line in answer.text.splitlines() if line[:5] == "data:"
    ]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    assert not [event for event in events if event.get("error")]
    if route == MESSAGES:
        usage = next(event["usage"] for event in events if event["type"] == "message_delta")
        cached = usage["cache_read_input_tokens"]
        return usage["input_tokens"] + cached, cached
    if route == RESPONSES:
        usage = events[-1]["response"]["usage"]
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]
    usage = events[-1]["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
