"""What the page says while an answer is made: wire events in, sentences out."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.chat import Chat

TELL = """
    const { stateSentence } = await import("/static/hosting/js/chat/sentences.js");
    const answer = new module.LiveAnswer({ isWatchedFromStart: true });
    for (const event of argument) answer.apply(event);
"""
ACCEPTED = {"type": "Accepted", "prompt_tokens": 124, "max_tokens": 9}
STARTED = {"type": "Started", "cached_tokens": 96}
TEXT = {"type": "Delta", "channel": "content", "text": "Warm "}
PAUSED = {"type": "Paused"}

STATES = (
    ([], "Waiting for the engine"),
    ([ACCEPTED, {"type": "Queued", "position": 3}], "Queued #3"),
    ([ACCEPTED, {"type": "Queued", "position": 3, "wait_seconds": 19.6}], "Queued #3 (~20 s)"),
    ([ACCEPTED, {"type": "Loading", "fraction": 0.434}], "Loading Demo 43 %"),
    ([ACCEPTED, STARTED], "Reading"),
    ([STARTED, {"type": "Prefilled", "done_tokens": 1, "total_tokens": 4}], "Reading 25 %"),
    ([STARTED, {"type": "Delta", "channel": "reasoning", "text": "Hm"}], "Thinking"),
    ([STARTED, TEXT], "Writing"),
    ([STARTED, TEXT, PAUSED], "Waiting for memory"),
    ([STARTED, TEXT, PAUSED, {"type": "Resumed", "at_tokens": 1}], "Reading"),
)


def test_each_state_has_its_sentence(chat: Chat) -> None:
    for events, sentence in STATES:
        told = chat.module("live_answer", TELL + "return stateSentence(answer, 'Demo');", events)
        assert told == sentence


def test_an_answer_that_is_resumed_goes_on_without_a_gap(chat: Chat) -> None:
    again = {"type": "Prefilled", "done_tokens": 3, "total_tokens": 4}
    events = [ACCEPTED, STARTED, TEXT, {"type": "Resumed", "at_tokens": 1}, STARTED, again, TEXT]
    told = chat.module(
        "live_answer", TELL + "return [answer.text, answer.phase, answer.resumptions];", events
    )
    assert told == ["Warm Warm ", "writing", 1]


def test_numbers_are_written_as_on_all_pages(chat: Chat) -> None:
    usage = {"prompt_tokens": 12430, "cached_tokens": 1024, "completion_tokens": 860}
    told = chat.module("sentences", "return module.statistics(argument, null);", usage)
    assert told == "12,430 in (1,024 cached) · 860 out"
    chat.page.locator("#model-button").click()
    expect(chat.page.locator("#model-list")).to_contain_text("4,096 tokens")


def test_a_tool_call_is_put_together(chat: Chat) -> None:
    part = {"index": 0, "call_id": "call-1"}
    events = [
        {
            "type": "Delta",
            "channel": "tool_call",
            "text": '{"a"',
            "tool_call": part | {"name": "f"},
        },
        {"type": "Delta", "channel": "tool_call", "text": ":1}", "tool_call": part},
    ]
    calls = chat.module("live_answer", TELL + "return answer.toolCalls;", events)
    assert calls == [{"id": "call-1", "name": "f", "arguments": '{"a":1}'}]
