"""The anthropic package, unchanged, with the demo model."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.clients.environments import run_program
from tests.stack import Stack

pytestmark = pytest.mark.stack
Results = dict[str, Any]


@pytest.fixture(scope="module")
def results(stack: Stack, api_key: str, demo: str, endless: str) -> Results:
    return run_program(
        "with_anthropic", environment="anthropic", stack=stack, api_key=api_key, model=demo
    )


def calls_of(message: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    blocks = [block for block in message["content"] if block["type"] == "tool_use"]
    assert all(block["id"].startswith("toolu_") for block in blocks)
    return [(block["name"], block["input"]) for block in blocks]


def test_it_reads_a_whole_answer(results: Results) -> None:
    assert "42" in results["text"]["content"][0]["text"]
    assert results["text"]["stop_reason"] == "end_turn"


def test_a_stream_becomes_the_same_message(results: Results) -> None:
    streamed = results["streamed"]
    assert streamed["message"]["content"][0]["text"] == results["text"]["content"][0]["text"]
    kinds = streamed["kinds"]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


@pytest.mark.parametrize(
    ("case", "reason"), [("length", "max_tokens"), ("stop", "stop_sequence"), ("tool", "tool_use")]
)
def test_it_knows_why_an_answer_ended(results: Results, case: str, reason: str) -> None:
    assert results[case]["stop_reason"] == reason
    assert results["length"]["usage"]["output_tokens"] == 5
    assert results["stop"]["stop_sequence"] == "7"


def test_it_puts_a_tools_input_together(results: Results) -> None:
    assert calls_of(results["tool"]) == [("get_weather", {"city": "Paris"})]


def test_it_puts_two_calls_side_by_side(results: Results) -> None:
    cities = [given["city"] for _, given in calls_of(results["two_tools"])]
    assert cities == ["Paris", "Rome"]


def test_a_named_tool_is_called_whatever_is_said(results: Results) -> None:
    assert [name for name, _ in calls_of(results["forced_tool"])] == ["get_weather"]


def test_a_tools_result_is_read(results: Results) -> None:
    text = results["tool_result"]["content"][0]["text"]
    assert "21" in text
    assert "sunny" in text


def test_thoughts_are_blocks_before_the_answer(results: Results) -> None:
    thought, answer = results["thinking"]["content"]
    assert (thought["type"], answer["type"]) == ("thinking", "text")
    assert thought["thinking"]
    assert thought["signature"]
    assert "42" in answer["text"]


def test_characters_survive_being_split_over_tokens(results: Results) -> None:
    assert results["unicode"]["streamed"] == results["unicode"]["whole"] != ""


def test_the_second_call_finds_the_firsts_tokens(results: Results) -> None:
    first, second = results["cached"]
    assert second["cache_read_input_tokens"] > 256 > second["input_tokens"]
    totals = [one["input_tokens"] + one["cache_read_input_tokens"] for one in (first, second)]
    assert totals[0] == totals[1]


def test_counting_agrees_with_answering(results: Results) -> None:
    counted, used = results["counted"]
    assert counted == used > 256


def test_it_lists_the_models(results: Results, demo: str) -> None:
    assert {"hearth-demo", "endless"} <= {one["id"] for one in results["models"]}


@pytest.mark.parametrize(
    ("case", "raised", "status"),
    [
        ("wrong_key", "AuthenticationError", 401),
        ("wrong_model", "NotFoundError", 404),
        ("too_long", "BadRequestError", 400),
    ],
)
def test_it_raises_what_fits(results: Results, case: str, raised: str, status: int) -> None:
    assert raised in results[case]["raised"]
    assert results[case]["status"] == status
    assert "prompt is too long: " in results["too_long"]["message"]
    assert "> 4096 maximum" in results["too_long"]["message"]


def test_it_reads_the_results_of_a_batch(results: Results) -> None:
    batch = results["batch"]
    answers = {one["custom_id"]: one["result"] for one in batch["results"]}
    assert answers["good"]["message"]["content"] == results["text"]["content"]
    assert answers["bad"]["error"]["error"]["type"] == "invalid_request_error"
    counts = batch["made"]["request_counts"]
    assert (counts["succeeded"], counts["errored"], counts["processing"]) == (1, 1, 0)
    assert batch["made"]["id"] in batch["listed"]
    assert batch["deleted"] == {"id": batch["made"]["id"], "type": "message_batch_deleted"}


def test_usage_is_what_the_ledger_has(results: Results, stack: Stack) -> None:
    stack.wait_settled()
    for case in ("text", "tool", "tool_result", "thinking"):
        message = results[case]
        usage = message["usage"]
        told = (
            usage["input_tokens"] + usage["cache_read_input_tokens"],
            usage["cache_read_input_tokens"],
            usage["output_tokens"],
        )
        assert ledger_line(stack, message["id"])[:3] == told


def test_leaving_a_stream_ends_the_answer(results: Results, stack: Stack) -> None:
    stack.wait_settled()
    assert ledger_line(stack, results["left"])[3] == "cancelled"


def ledger_line(stack: Stack, message_id: str) -> tuple[Any, ...]:
    """Tokens of the prompt, those cached, those of the answer, and how it ended."""
    key = uuid.UUID(message_id.removeprefix("msg_"))
    (line,) = stack.rows(
        "SELECT prompt_tokens, cached_tokens, completion_tokens, accounts_usagerecord.end"
        f" FROM accounts_usagerecord WHERE generation_id IN ('{key.hex}', '{key}')"
    )
    return line
