"""Tokens drawn in quick succession travel together; what somebody waits for does not wait."""

from __future__ import annotations

import random

from engine import wire
from engine.transport.bundle import Haste, Urgency, bundled

STARTED = wire.Started(cached_tokens=0)


def delta(number: int, channel: wire.Channel = wire.Channel.CONTENT) -> wire.Delta:
    return wire.Delta(channel=channel, text=f"{number} ", token_ids=(number,))


def test_neighbouring_tokens_of_a_request_become_one_event() -> None:
    events = [("a", delta(1)), ("b", delta(2)), ("a", delta(3)), ("a", delta(4))]
    assert bundled(events) == [
        ("a", wire.Delta(channel=wire.Channel.CONTENT, text="1 3 4 ", token_ids=(1, 3, 4))),
        ("b", delta(2)),
    ]


def test_nothing_joins_across_another_event_or_channel() -> None:
    thought = delta(3, wire.Channel.REASONING)
    events = [("a", STARTED), ("a", delta(1)), ("a", STARTED), ("a", delta(2)), ("a", thought)]
    assert bundled(events) == events


def test_logprobs_stay_with_their_token() -> None:
    logprob = wire.TokenLogprob(token_id=1, text="1", logprob=-0.5)
    logged = wire.Delta(
        channel=wire.Channel.CONTENT,
        text="1",
        token_ids=(1,),
        logprobs=(wire.PositionLogprobs(token=logprob, top=()),),
    )
    assert bundled([("a", logged), ("a", delta(2))]) == [("a", logged), ("a", delta(2))]


def test_no_token_is_lost_or_moved() -> None:
    chooser = random.Random(7)
    channels = list(wire.Channel)
    events = [
        (chooser.choice("abc"), delta(number, chooser.choice(channels[:2])))
        if chooser.random() < 0.8
        else (chooser.choice("abc"), STARTED)
        for number in range(2000)
    ]
    for name in "abc":
        before = [event for request_id, event in events if request_id == name]
        after = [event for request_id, event in bundled(events) if request_id == name]
        assert tokens_by_channel(after) == tokens_by_channel(before)
        assert sum(event == STARTED for event in after) == sum(e == STARTED for e in before)
        assert len(after) < len(before)


def tokens_by_channel(events: list[wire.Event]) -> list[tuple[wire.Channel, int, str]]:
    return [
        (event.channel, token_id, text)
        for event in events
        if isinstance(event, wire.Delta)
        for token_id, text in zip(event.token_ids, event.text.split(), strict=True)
    ]


def test_a_first_token_goes_first_and_only_those_that_follow_others_may_wait() -> None:
    urgency = Urgency()
    end = wire.Failed(code=wire.Code.ENGINE_ERROR, detail="")
    assert urgency.of([("a", STARTED)]) == (Haste.AT_ONCE, ["a"])
    assert urgency.of([("a", delta(1))]) == (Haste.FIRST, ["a"])
    assert urgency.of([("a", delta(2))]) == (Haste.NONE, [])
    first = [("a", delta(3)), ("b", delta(1)), ("b", STARTED)]
    assert urgency.of(first) == (Haste.FIRST, ["b", "b"])
    assert urgency.of([("b", delta(2))]) == (Haste.NONE, [])
    assert urgency.of([("b", delta(3)), ("a", end)]) == (Haste.AT_ONCE, ["a"])
    assert urgency.of([("a", delta(1))]) == (Haste.FIRST, ["a"])
