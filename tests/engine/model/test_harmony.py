"""gpt-oss' answers: thoughts, words and calls are told apart, and headers are shown to nobody."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import wire
from engine.core.answer import Answer
from engine.model.detokenizer import ByteDetokenizer
from engine.model.harmony import HarmonyStream
from engine.model.tool_calls import ToolCallReader
from engine.shelf import ModelVoice
from tests.engine.model.rig import loaded
from tests.fakes import make_work
from tests.tiny_harmony import CALL_ID, RETURN_ID, SPECIAL_TOKENS
from tests.tiny_models import HARMONY

TOOLS = ({"type": "function", "function": {"name": "weather", "parameters": {}}},)
THOUGHT = "<|channel|>analysis<|message|>hm 🙂<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>"
JSON = '<|message|>{"city": "Köln }"}'
CALLED = [("weather", '{"city": "Köln }"}')]
Told = tuple[str, str, list[tuple[str, str]]]


def ask(**changes: Any) -> wire.Work:
    return make_work("r", **({"tools": TOOLS, "max_tokens": 10_000} | changes))


def tokens(text: str) -> list[int]:
    ids: list[int] = loaded(HARMONY).tokenizer.encode(text, add_special_tokens=False)
    return ids


def events(answer: Answer, token_ids: list[int]) -> list[wire.Delta]:
    found = []
    for token_id in token_ids:
        for event in answer.add(token_id) if answer.ending is None else []:
            assert isinstance(event, wire.Delta)
            found.append(event)
    return found


def told(deltas: list[wire.Delta]) -> Told:
    """Thoughts, words and calls."""
    said = {wire.Channel.REASONING: "", wire.Channel.CONTENT: ""}
    calls: dict[int, tuple[str, str]] = {}
    for delta in deltas:
        if delta.tool_call is None:
            assert not delta.text or delta.channel is not wire.Channel.TOOL_CALL
            said[delta.channel] = said.get(delta.channel, "") + delta.text
            continue
        name, arguments = calls.get(delta.tool_call.index, ("", ""))
        name += delta.tool_call.name or ""
        calls[delta.tool_call.index] = (name, arguments + delta.text)
    return said[wire.Channel.REASONING], said[wire.Channel.CONTENT], list(calls.values())


def answered(text: str, **changes: Any) -> tuple[Told, wire.FinishReason | None]:
    voice = ModelVoice(loaded(HARMONY).tokenizer)
    work = ask(**changes)
    answer = Answer(work, voice.stream(work), end_token_ids=voice.end_token_ids)
    found = told(events(answer, tokens(text)))
    return found, answer.ending.reason if answer.ending is not None else None


def test_thoughts_and_words_are_told_apart() -> None:
    told, reason = answered(f"{THOUGHT}{FINAL}Good day.<|return|>")
    assert told == ("hm 🙂", "Good day.", [])
    assert reason is wire.FinishReason.STOP


CALLS = [
    "<|channel|>commentary to=functions.weather <|constrain|>json" + JSON,
    "<|channel|>commentary to=functions.weather<|constrain|>json" + JSON,
    "<|channel|>commentary to=functions.weather json" + JSON,
    "<|channel|>commentary to=functions.weather" + JSON,
    " to=functions.weather<|channel|>commentary <|constrain|>json" + JSON,
    " to=functions.weather<|channel|>commentary json" + JSON,
    "<|channel|>analysis to=functions.weather code" + JSON,
    "<|channel|>commentary to=weather json" + JSON,
    # As it goes wrong now and then:
    "<|channel|>functions.weather<|channel|>commentary to=assistant json" + JSON,
]


@pytest.mark.parametrize("call", CALLS)
def test_calls_are_read_wherever_their_name_stands(call: str) -> None:
    told, reason = answered(THOUGHT + call + "<|call|>")
    assert told == ("hm 🙂", "", CALLED)
    assert reason is wire.FinishReason.TOOL_CALLS


def test_a_preamble_is_shown_and_the_call_follows() -> None:
    said = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
    told, reason = answered(THOUGHT + said + CALLS[0] + "<|call|>")
    assert told == ("hm 🙂", "I look.", CALLED)
    assert reason is wire.FinishReason.TOOL_CALLS


def test_a_call_without_arguments_has_an_empty_object() -> None:
    told, _ = answered("<|channel|>commentary to=functions.weather json<|message|><|call|>")
    assert told == ("", "", [("weather", "{}")])


OTHERS = {
    # Text, and who sees it
    "no channel": ("<|message|>Hello<|return|>", ("", "Hello")),
    "no form": ("to be or not<|return|>", ("", "to be or not")),
    "short and no form": ("to<|return|>", ("", "to")),
    "half a channel": ("<|channel|>comment<|message|>Hello<|return|>", ("", "Hello")),
    "final in JSON": ("<|channel|>final <|constrain|>json<|message|>[1]<|return|>", ("", "[1]")),
    "its own assistant": (
        "<|channel|>commentary to=assistant<|channel|>analysis<|message|>hm<|end|>"
        f"<|start|>assistant{FINAL}Hello<|return|>",
        ("hm", "Hello"),
    ),
    "a header without a message": (
        f"<|channel|>commentary 2??<|end|><|start|>assistant{FINAL}Hello<|return|>",
        ("", "Hello"),
    ),
    "thoughts without an end": (
        f"<|channel|>analysis<|message|>hm{FINAL}Hello<|return|>",
        ("hm", "Hello"),
    ),
    "no start": (f"{THOUGHT}{FINAL}Hel<|end|>lo<|return|>", ("hm 🙂", "Hello")),
    "another's words": (
        "<|start|>functions.weather to=assistant<|channel|>commentary<|message|>[]<|end|>"
        f"<|start|>assistant{FINAL}Hello<|return|>",
        ("[]", "Hello"),
    ),
    "arguments that are none": (
        "<|channel|>commentary to=functions.weather<|message|>in Rome<|call|>",
        ("", "in Rome"),
    ),
    "code for nobody": (
        "<|channel|>analysis to=python code<|message|>1 + 1<|call|>",
        ("1 + 1", ""),
    ),
    "half an object": ("<|channel|>commentary to=python<|message|>{<|call|>", ("", "{")),
    "markers in the wrong place": (
        f"{FINAL}He<|message|>l<|constrain|>lo<|return|>",
        ("", "Hello"),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_as_it_should_be_shows_no_markup(name: str) -> None:
    text, (thoughts, words) = OTHERS[name]
    told, reason = answered(text)
    assert told == (thoughts, words, [])
    assert reason is wire.FinishReason.STOP


def test_where_no_tools_are_offered_a_call_is_text() -> None:
    told, reason = answered(THOUGHT + CALLS[0] + "<|call|>", tools=())
    assert told == ("hm 🙂", '{"city": "Köln }"}', [])
    assert reason is wire.FinishReason.STOP


def test_a_tool_that_nobody_knows_is_a_call() -> None:
    told, _ = answered('<|channel|>analysis to=browser.search code<|message|>{"q": 1}<|call|>')
    assert told == ("", "", [("browser.search", '{"q": 1}')])


@pytest.mark.parametrize("text", [" world", " to=functions.weather json"])
def test_what_was_begun_goes_on_as_text(text: str) -> None:
    told, _ = answered(f"{text}<|return|>", has_thought=True)
    assert told == ("", text, [])


def test_a_raw_prompt_s_answer_is_as_it_is() -> None:
    told, _ = answered(f"{FINAL}Hello<|return|>", is_raw=True)
    assert told == ("", f"{FINAL}Hello", [])


def test_stop_strings_count_in_words_alone() -> None:
    told, reason = answered(f"{THOUGHT}{FINAL}What is final? hm<|return|>", stop=("hm", "analysis"))
    assert told == ("hm 🙂", "What is final? ", [])
    assert reason is wire.FinishReason.STOP


def logged(answer: Answer, text: str) -> list[wire.Delta]:
    """What is told of these tokens where each has logprobs."""
    position = wire.PositionLogprobs(token=wire.TokenLogprob(token_id=9, text="x", logprob=0.0))
    events = (event for one in tokens(text) for event in answer.add(one, position))
    return [event for event in events if isinstance(event, wire.Delta)]


def new_answer() -> Answer:
    voice = ModelVoice(loaded(HARMONY).tokenizer)
    return Answer(ask(), voice.stream(ask()), end_token_ids=voice.end_token_ids)


def test_only_words_have_logprobs() -> None:
    answer = new_answer()
    deltas = logged(answer, f"{THOUGHT}{FINAL}Good day.")
    assert sum(len(delta.logprobs) for delta in deltas) == len(tokens("Good day."))
    assert answer.usage.reasoning_tokens == len(tokens("<|message|>hm 🙂"))


def test_an_answer_without_any_form_has_the_logprobs_of_all_its_words() -> None:
    text = "assist me. Good day."
    deltas = logged(new_answer(), text)
    assert "".join(delta.text for delta in deltas) == text
    assert sum(len(delta.logprobs) for delta in deltas) == len(tokens(text))


PARTS = (*SPECIAL_TOKENS[2:], *CALLS, THOUGHT, FINAL, "assistant", "analysis", "commentary")
PARTS += (
    " to=functions.weather",
    " to=",
    "{",
    '"',
    "}",
    '{"a": "}"}',
    "wörld 🙂",
    " ",
    "STOP",
    "<|",
)


def cut(text: str, sizes: list[int]) -> tuple[list[bytes], dict[int, str]]:
    """Tokens as bytes, cut anywhere but within markers; and which of them are markers."""
    sizes_left = itertools.cycle(sizes)
    pieces: list[bytes] = []
    markers: dict[int, str] = {}
    for part in tokens_of(text):
        if part in SPECIAL_TOKENS:
            markers[len(pieces)] = part
            pieces.append(b"")
            continue
        left = part.encode()
        while left:
            size = next(sizes_left)
            pieces.append(left[:size])
            left = left[size:]
    return pieces, markers


def tokens_of(text: str) -> list[str]:
    """The text between its markers, and those."""
    tokenizer = loaded(HARMONY).tokenizer
    ids, parts = tokens(text), [""]
    for is_marker, each in itertools.groupby(ids, key=lambda one: one < len(SPECIAL_TOKENS)):
        run = list(each)
        parts += [SPECIAL_TOKENS[one] for one in run] if is_marker else [tokenizer.decode(run)]
    return parts


def split(text: str, sizes: list[int], **changes: Any) -> tuple[Told, Any]:
    return said_in(*cut(text, sizes), **changes)


def said_in(pieces: list[bytes], markers: dict[int, str], **changes: Any) -> tuple[Told, Any]:
    work = ask(**changes)
    stream = HarmonyStream(
        detokenizer=ByteDetokenizer(pieces, trims_space=False),
        markers=markers,
        tool_calls=ToolCallReader(loaded(HARMONY).tokenizer, work),
        tools=work.tools,
        is_begun=work.has_thought,
    )
    answer = Answer(work, stream, end_token_ids={len(pieces)})
    return told(events(answer, list(range(len(pieces) + 1)))), answer.ending


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=9),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    stop=st.sampled_from([(), ("STOP",), ("}", "ö"), ("🙂", "assistant")]),
    is_parallel=st.booleans(),
    has_thought=st.booleans(),
)
def test_any_split_says_the_same(
    parts: list[str], sizes: list[int], is_parallel: bool, **changes: Any
) -> None:
    text = "".join(parts)
    changes["tool_choice"] = wire.ToolChoice(is_parallel=is_parallel)
    said = split(text, sizes, **changes)
    assert said == split(text, [1], **changes)
    (thoughts, words, _), _ = said
    assert not any(marker in thoughts + words for marker in SPECIAL_TOKENS)


def test_a_header_without_an_end_costs_no_more_than_text() -> None:
    pieces, markers = [b"", *[b" why"] * 100_000], {0: "<|channel|>"}
    started = time.process_time()
    (thoughts, words, calls), _ = said_in(pieces, markers, max_tokens=1_000_000)
    assert (thoughts, words, calls) == ("", "", [])
    assert time.process_time() - started < 5.0


def test_half_a_character_stays_in_its_message() -> None:
    markers = {0: "<|channel|>", 2: "<|message|>", 4: "<|channel|>", 6: "<|message|>"}
    pieces = [b"", b"analysis", b"", b"hm \xf0\x9f", b"", b"final", b"", b"Hello"]
    (thoughts, words, _), _ = said_in(pieces, markers)
    assert (thoughts, words) == ("hm \ufffd", "Hello")


@pytest.mark.parametrize("call", CALLS)
def test_wherever_it_is_cut_no_markup_is_shown(call: str) -> None:
    said = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
    text = THOUGHT + said + call
    for length in range(1, len(tokens(text)) + 1):
        (thoughts, words, calls), reason = answered(text, max_tokens=length)
        assert "hm 🙂".startswith(thoughts.rstrip("\ufffd")) and "I look.".startswith(words)
        assert [name for name, _ in calls] in ([], ["weather"])
        assert all(CALLED[0][1].startswith(arguments.rstrip("\ufffd")) for _, arguments in calls)
        assert reason is wire.FinishReason.LENGTH


def test_both_ends_end_an_answer_whatever_the_files_say() -> None:
    tokenizer = loaded(HARMONY).tokenizer
    assert CALL_ID not in tokenizer.eos_token_ids
    assert {CALL_ID, RETURN_ID} <= set(ModelVoice(tokenizer).end_token_ids)
