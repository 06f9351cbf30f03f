"""Tokens into wire events: text, ends, counts, replay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import wire
from engine.core.answer import Answer, Piece
from tests.fakes import FAKE_END_TOKEN_ID, FakeTextStream, make_work

LETTERS = "abcdefghij"


class Letters:
    """Token n is the n-th letter; 8 starts reasoning, 9 ends it; 7 is held until the end; 6 makes
    a call of what was held."""

    def __init__(self) -> None:
        self.channel = wire.Channel.CONTENT
        self.has_tool_calls = False
        self.has_finished_call = False
        self._held = ""

    def add(self, token_id: int) -> list[Piece]:
        if token_id in (8, 9):
            is_start = token_id == 8
            self.channel = wire.Channel.REASONING if is_start else wire.Channel.CONTENT
            return []
        if token_id == 7:
            self._held = "h"
            return []
        if token_id == 6:
            self._held = ""
            call = wire.ToolCallPart(index=0, call_id="c", name="g")
            return [Piece(channel=wire.Channel.TOOL_CALL, text="", tool_call=call)]
        return [Piece(channel=self.channel, text=LETTERS[token_id])]

    def finish(self, *, is_cut: bool) -> list[Piece]:
        return [Piece(channel=self.channel, text=self._held)] if self._held else []


def answer(delivered: tuple[int, ...] = (), **changes: object) -> Answer:
    work = make_work("r", **{"max_tokens": 100, **changes})
    return Answer(work, Letters(), end_token_ids={0}, delivered_token_ids=delivered)


def text_of(events: list[wire.Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, wire.Delta))


def say(one: Answer, token_ids: list[int]) -> str:
    return "".join(text_of(one.add(token_id)) for token_id in token_ids)


def test_each_token_is_delivered_once_even_when_it_brings_no_text() -> None:
    one = answer(stop=("bc",))
    events = [event for token_id in (1, 1, 3) for event in one.add(token_id)]
    assert [event.token_ids for event in events] == [(1,), (1,), (3,)]
    assert [event.text for event in events] == ["", "b", "bd"]


def logged(one: Answer, token_ids: list[int]) -> list[tuple[str, list[int]]]:
    """The text of each Delta and the tokens that its logprobs are of."""
    events = [event for token_id in token_ids for event in one.add(token_id, logprobs(token_id))]
    deltas = [event for event in events if isinstance(event, wire.Delta)]
    return [(delta.text, [each.token.token_id for each in delta.logprobs]) for delta in deltas]


def logprobs(token_id: int) -> wire.PositionLogprobs:
    token = wire.TokenLogprob(token_id=token_id, text=LETTERS[token_id], logprob=-1.0)
    return wire.PositionLogprobs(token=token)


def test_logprobs_come_with_the_text_that_their_tokens_make() -> None:
    one = answer(stop=("bc",))
    assert logged(one, [3, 1, 1, 3]) == [("d", [3]), ("b", [1, 1]), ("bd", [3])]


def test_what_is_thought_and_what_marks_it_has_no_logprobs() -> None:
    said = [("", []), ("b", []), ("", []), ("c", [2]), ("", [])]
    assert logged(answer(), [8, 1, 9, 2, FAKE_END_TOKEN_ID]) == said


def test_what_turns_out_to_be_a_call_has_no_logprobs() -> None:
    assert logged(answer(), [7, 6, 1]) == [("", []), ("b", [1])]


def test_a_held_tokens_logprobs_are_told_at_the_end_or_not_at_all() -> None:
    assert logged(answer(), [7, FAKE_END_TOKEN_ID]) == [("h", [7])]
    assert logged(answer(stop=("bc",)), [1, 2]) == [("", [])]


def test_an_end_token_ends_the_answer_and_shows_what_was_held() -> None:
    one = answer(stop=("bc",))
    assert say(one, [3, 1]) == "d"
    assert text_of(one.add(FAKE_END_TOKEN_ID)) == "b"
    assert one.ending is not None and one.ending.reason is wire.FinishReason.STOP
    assert one.usage.completion_tokens == 3


def test_a_stop_string_across_tokens_ends_the_answer_before_it() -> None:
    one = answer(stop=("bcd",))
    assert say(one, [5, 1, 2, 3]) == "f"
    assert one.ending is not None and one.ending.stop_string == "bcd"


def test_stop_strings_do_not_count_in_reasoning() -> None:
    one = answer(stop=("b",))
    assert say(one, [8, 1, 9, 3]) == "bd"
    assert one.ending is None


def test_a_call_keeps_its_name_beside_stop_strings() -> None:
    """A call begins with a name and no text yet."""
    call = wire.ToolCallPart(index=0, call_id="call_1", name="f")
    begun = Piece(channel=wire.Channel.TOOL_CALL, text="", tool_call=call)

    class CallingText(FakeTextStream):
        def add(self, token_id: int) -> list[Piece]:
            return [begun]

    one = Answer(make_work("r", stop=("b",)), CallingText(), end_token_ids=())
    (event,) = one.add(1)

    assert isinstance(event, wire.Delta) and event.tool_call == call


def test_max_tokens_ends_the_answer_with_all_its_text() -> None:
    one = answer(max_tokens=2)
    assert say(one, [1, 7]) == "bh"
    assert one.ending is not None and one.ending.reason is wire.FinishReason.LENGTH


def test_a_stop_string_at_max_tokens_counts_as_stop() -> None:
    one = answer(max_tokens=2, stop=("bh",))
    assert say(one, [1, 7]) == ""
    assert one.ending is not None and one.ending.reason is wire.FinishReason.STOP


def test_reasoning_tokens_are_counted() -> None:
    one = answer()
    say(one, [8, 1, 2, 9, 3])
    assert one.usage.reasoning_tokens == 3 and one.usage.completion_tokens == 5


def test_cancel_shows_what_was_held() -> None:
    one = answer(stop=("bcd",))
    say(one, [1, 2])
    assert text_of(one.cut()) == "bc"
    assert one.ending is not None and one.ending.reason is wire.FinishReason.CANCELLED


@pytest.mark.parametrize("cut", range(9))
def test_a_resumed_answer_says_exactly_the_rest(cut: int) -> None:
    token_ids = [3, 8, 1, 9, 2, 1, 2, 4, 5]
    changes = {"stop": ("bce",), "max_tokens": 50}
    whole = say(answer(**changes), token_ids)
    first = say(answer(**changes), token_ids[:cut])
    resumed = answer(tuple(token_ids[:cut]), **changes)
    rest = "" if resumed.ending else say(resumed, token_ids[cut:])
    assert first + rest == whole


def lives(token_ids: list[int], cuts: set[int], stop: tuple[str, ...]) -> Iterator[wire.Delta]:
    """What engines say that die after so many tokens, each going on with what was delivered."""
    delivered: list[int] = []
    for cut in [*sorted(cuts), len(token_ids)]:
        one = answer(tuple(delivered), stop=stop)
        for token_id in token_ids[len(delivered) : cut]:
            if one.ending:
                return
            for event in one.add(token_id, logprobs(token_id)):
                assert isinstance(event, wire.Delta)
                delivered += event.token_ids
                yield event


def whole(deltas: Iterator[wire.Delta]) -> tuple[str, list[int], list[int]]:
    """All text, all tokens, and those with logprobs."""
    told = list(deltas)
    text = "".join(one.text for one in told)
    token_ids = [token_id for one in told for token_id in one.token_ids]
    return text, token_ids, [each.token.token_id for one in told for each in one.logprobs]


def test_an_engine_that_dies_while_text_is_held_back_takes_no_logprobs_along() -> None:
    for cut in range(5):
        found = whole(lives([3, 1, 2, 4], {cut}, ("bcd",)))
        assert found == ("dbce", [3, 1, 2, 4], [3, 1, 2, 4]), cut


@given(
    st.lists(st.sampled_from([0, 1, 1, 1, 2, 2, 3, 4, 6, 7, 8, 9]), max_size=25),
    st.sets(st.integers(0, 25), max_size=5),
    st.lists(st.text("bcd", min_size=1, max_size=5), max_size=3).map(tuple),
)
def test_any_deaths_of_engines_leave_the_same_answer(
    token_ids: list[int], cuts: set[int], stop: tuple[str, ...]
) -> None:
    cuts = {cut for cut in cuts if cut <= len(token_ids)}
    assert whole(lives(token_ids, cuts, stop)) == whole(lives(token_ids, set(), stop))


def test_a_cancelled_answer_tells_the_tokens_and_logprobs_that_were_held() -> None:
    one = answer(stop=("bcd",))
    assert logged(one, [1, 2]) == []
    (event,) = one.cut()
    assert isinstance(event, wire.Delta) and event.token_ids == (1, 2)
    assert [each.token.token_id for each in event.logprobs] == [1, 2]


def test_an_answer_that_was_complete_when_its_engine_died_ends_at_once() -> None:
    assert answer((1, 2), max_tokens=2).ending is not None
    assert answer((1, FAKE_END_TOKEN_ID)).ending is not None


def test_the_fake_text_stream_is_a_text_stream() -> None:
    work = make_work("r")
    one = Answer(work, FakeTextStream(), end_token_ids=frozenset())
    assert text_of(one.add(12)) == "12 "
