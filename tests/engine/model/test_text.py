"""Text of a real tokenizer's tokens: channels, tool calls, characters of several tokens."""

from __future__ import annotations

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
    return one, pieces + one.finish(is_cut=False)


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


def calls_in(pieces: list[Piece]) -> list[tuple[str, str]]:
    """(name, arguments) of each call; every fragment has its index and id, the first the name."""
    calls: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.tool_call is not None:
            calls.setdefault(piece.tool_call.index, []).append(piece)
    assert list(calls) == list(range(len(calls)))
    found = []
    for fragments in calls.values():
        parts = [one.tool_call for one in fragments if one.tool_call is not None]
        assert len({part.call_id for part in parts}) == 1
        assert all(part.name is None for part in parts[1:])
        found.append((str(parts[0].name), "".join(one.text for one in fragments)))
    return found


def test_tool_calls_have_index_id_name_and_arguments() -> None:
    one, pieces = read(f"I look.{CALL}\n{CALL}", tools=TOOLS)
    assert join(pieces) == "I look." and one.has_tool_calls
    assert calls_in(pieces) == [("weather", '{"city": "Köln"}')] * 2


def test_arguments_come_as_they_are_written_byte_for_byte() -> None:
    arguments = '{ "b":1.50,"a" : "\\u00e9 } \\" {",\n "n": [{}, []]}'
    body = f'{{"name": "weather", "arguments": {arguments}}}'
    one = stream(tools=TOOLS)
    shown = [one.add(token_id) for token_id in encode(f"<tool_call>\n{body}\n</tool_call>")]
    pieces = [piece for each in shown for piece in each] + one.finish(is_cut=False)

    assert calls_in(pieces) == [("weather", arguments)] and join(pieces) == ""
    assert sum(bool(each) for each in shown) > 5  # not only at the end


def test_a_call_that_is_cut_short_keeps_what_it_has() -> None:
    pieces = read('<tool_call>{"name": "weather", "arguments": {"city": "Kö', tools=TOOLS)[1]
    assert calls_in(pieces) == [("weather", '{"city": "Kö')] and join(pieces) == ""


@pytest.mark.parametrize("start", ["", "\n", "<think>\nhm</think>\n\n"])
def test_a_call_without_its_markers_is_a_call(start: str) -> None:
    pieces = read(f'{start}{{"name": "weather", "arguments": {{"a": 1}}}}', tools=TOOLS)[1]
    assert calls_in(pieces) == [("weather", '{"a": 1}')] and join(pieces) == ""


def test_words_after_a_call_without_markers_are_words() -> None:
    pieces = read('{"name": "weather", "arguments": {}} Done.', tools=TOOLS)[1]
    assert calls_in(pieces) == [("weather", "{}")] and join(pieces) == "Done."


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "nobody", "arguments": {}}',
        '{"name": "weather", "arguments": 3}',
        '{"name": "weather", "argu',
        '{"city": "Köln"} and more',
        'Say {"name": "weather", "arguments": {}}',
        "[1, 2]",
    ],
)
def test_json_that_is_no_call_of_an_offered_tool_is_text(text: str) -> None:
    one, pieces = read(text, tools=TOOLS)
    assert join(pieces) == text and not one.has_tool_calls


def test_one_call_is_enough_where_only_one_may_be_made() -> None:
    work = make_work(
        "r", tools=TOOLS, max_tokens=500, tool_choice=wire.ToolChoice(is_parallel=False)
    )
    answer = Answer(
        work, TextFactory(loaded("tiny-qwen3").tokenizer).stream(work), end_token_ids={2}
    )
    deltas = []
    for token_id in encode(f"{CALL}\n{CALL}"):
        if answer.ending is None:
            deltas += answer.add(token_id)

    assert answer.ending is not None and answer.ending.reason is wire.FinishReason.TOOL_CALLS
    parts = [one.tool_call for one in deltas if isinstance(one, wire.Delta) and one.tool_call]
    assert {part.index for part in parts} == {0}


@pytest.mark.parametrize(
    ("start", "after"),
    [("\n\n", CALL), ("[", CALL), ("{", CALL), ("\n\n", "<think>hm</think>")],
)
def test_what_was_held_as_a_bare_call_comes_before_what_follows(start: str, after: str) -> None:
    first, *others = read(start + after, tools=TOOLS)[1]
    assert first == Piece(channel=wire.Channel.CONTENT, text=start)
    assert others and join(others) == ""


def test_a_call_id_is_the_same_after_a_crash() -> None:
    first, second = (read(CALL, tools=TOOLS)[1][0].tool_call for _ in range(2))
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


RAW = ["    return x", ' "<think>") and "</think>" in text:', "<think>\nhm\n</think>\n\nHi", CALL]


@pytest.mark.parametrize("text", RAW)
def test_a_raw_prompt_is_answered_by_what_was_written(text: str) -> None:
    one, pieces = read(text, is_raw=True)
    assert pieces and {piece.channel for piece in pieces} == {wire.Channel.CONTENT}
    assert join(pieces) == text
    assert one.channel is wire.Channel.CONTENT


def test_an_answer_that_goes_on_keeps_the_space_between_and_may_think_first() -> None:
    assert join(read(" world!", continues_last=True)[1]) == " world!"
    pieces = read(" <think>hm</think>world!", continues_last=True)[1]
    assert join(pieces) == " world!" and join(pieces, wire.Channel.REASONING) == "hm"
