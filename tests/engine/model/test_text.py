"""Text of a real tokenizer's tokens: channels, tool calls, characters of several tokens."""

from __future__ import annotations

import json

import pytest

from engine import wire
from engine.core.answer import Answer, Piece
from engine.model.text import ModelTextStream, TextFactory
from tests.engine.model.rig import loaded
from tests.fakes import make_work

TOOLS = ({"type": "function", "function": {"name": "weather", "parameters": {}}},)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'


def encode(text: str) -> list[int]:
    ids: list[int] = loaded("tiny-qwen3").tokenizer.encode(text, add_special_tokens=False)
    return ids


def stream(**changes: object) -> ModelTextStream:
    return TextFactory(loaded("tiny-qwen3").tokenizer).stream(make_work("r", **changes))


def read(text: str, **changes: object) -> tuple[ModelTextStream, list[Piece]]:
    one = stream(**changes)
    pieces = [piece for token_id in encode(text) for piece in one.add(token_id)]
    return one, pieces + one.finish()


def join(pieces: list[Piece], channel: wire.Channel = wire.Channel.CONTENT) -> str:
    return "".join(piece.text for piece in pieces if piece.channel is channel)


@pytest.mark.parametrize("text", ["plain words here", "naïve 🙂🎉 日本語 Ελλάδα", "a\n\n b  c"])
def test_text_comes_out_as_it_was_encoded(text: str) -> None:
    assert join(read(text)[1]) == text


def test_no_half_character_is_shown() -> None:
    one = stream()
    token_ids = encode("🙃")
    assert len(token_ids) > 1
    shown = [join(one.add(token_id)) for token_id in token_ids]
    assert shown[:-1] == [""] * (len(token_ids) - 1) and shown[-1] == "🙃"


def test_thinking_goes_to_its_own_channel() -> None:
    one, pieces = read("<think>\nhm, well\n</think>\n\nHello")
    assert join(pieces, wire.Channel.REASONING) == "hm, well\n"
    assert join(pieces) == "Hello"
    assert one.channel is wire.Channel.CONTENT


def test_thinking_may_be_open_from_the_start() -> None:
    pieces = read("hm</think>Hello", starts_in_reasoning=True)[1]
    assert join(pieces, wire.Channel.REASONING) == "hm" and join(pieces) == "Hello"


def test_a_tool_call_has_index_id_name_and_arguments() -> None:
    one, pieces = read(f"I look.{CALL}\n{CALL}", tools=TOOLS)
    assert join(pieces) == "I look." and one.has_tool_calls
    calls = [piece for piece in pieces if piece.tool_call]
    assert [piece.tool_call.index for piece in calls] == [0, 1]
    assert {piece.tool_call.name for piece in calls} == {"weather"}
    assert len({piece.tool_call.call_id for piece in calls}) == 2
    assert json.loads(calls[0].text) == {"city": "Köln"}


def test_a_call_id_is_the_same_after_a_crash() -> None:
    first, second = (read(CALL, tools=TOOLS)[1][-1].tool_call for _ in range(2))
    assert first is not None and first == second


@pytest.mark.parametrize(
    "body", ["not json", '{"arguments": {}}', '{"name": "f", "arguments": 3}', '["x"]']
)
def test_a_malformed_call_is_text(body: str) -> None:
    one, pieces = read(f"<tool_call>{body}</tool_call>", tools=TOOLS)
    assert join(pieces) == f"<tool_call>{body}</tool_call>" and not one.has_tool_calls


def test_a_call_without_its_end_still_counts_when_it_parses() -> None:
    one, pieces = read(CALL.removesuffix("</tool_call>"), tools=TOOLS)
    assert one.has_tool_calls and join(pieces) == ""


def test_without_tools_a_call_is_text() -> None:
    one, pieces = read(CALL)
    assert join(pieces) == CALL and not one.has_tool_calls


def test_half_a_marker_is_shown_at_the_end() -> None:
    assert join(read("see <thi")[1]) == "see <thi"


def test_an_answer_with_a_call_ends_with_tool_calls() -> None:
    work = make_work("r", tools=TOOLS, max_tokens=100)
    answer = Answer(work, stream(tools=TOOLS), end_token_ids={2})
    for token_id in [*encode(CALL), 2]:
        answer.add(token_id)
    assert answer.ending is not None and answer.ending.reason is wire.FinishReason.TOOL_CALLS


@pytest.mark.parametrize("stop", [(), ("Hello w",), ("🙂",), ("zzz", "wor")])
def test_replay_after_any_token_neither_repeats_nor_misses_text(stop: tuple[str, ...]) -> None:
    token_ids = encode(f"<think>\nso 🙂</think>\n\nHello 🙂 world {CALL} bye")
    changes = {"tools": TOOLS, "stop": stop, "max_tokens": 500}

    def answer(delivered: list[int]) -> Answer:
        work = make_work("r", **changes)
        return Answer(
            work, stream(**changes), end_token_ids={2}, delivered_token_ids=tuple(delivered)
        )

    def say(one: Answer, ids: list[int]) -> list[tuple[str, str]]:
        shown: dict[str, str] = {}
        for token_id in ids:
            if one.ending is None:
                for delta in one.add(token_id):
                    shown[delta.channel] = shown.get(delta.channel, "") + delta.text
        return sorted(shown.items())

    whole = dict(say(answer([]), [*token_ids, 2]))
    for cut in range(len(token_ids)):
        parts = [*say(answer([]), token_ids[:cut])]
        joined = dict(parts)
        for channel, text in say(answer(token_ids[:cut]), [*token_ids[cut:], 2]):
            joined[channel] = joined.get(channel, "") + text
        assert {k: v for k, v in joined.items() if v} == {k: v for k, v in whole.items() if v}
