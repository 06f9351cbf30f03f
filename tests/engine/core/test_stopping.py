"""Stop strings on streamed text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.core.stopping import StopMatcher


def feed_all(matcher: StopMatcher, pieces: list[str]) -> str:
    return "".join(matcher.feed(piece) for piece in pieces) + matcher.flush()


def test_a_stop_string_is_found_across_pieces() -> None:
    matcher = StopMatcher(("END",))
    assert feed_all(matcher, ["some E", "N", "D more"]) == "some "
    assert matcher.matched == "END"


def test_text_that_may_become_a_stop_string_is_held_back() -> None:
    matcher = StopMatcher(("\n\nUser:",))
    assert matcher.feed("Hello\n") == "Hello"
    assert matcher.feed("\nUs") == ""
    assert matcher.feed("e it") == "\n\nUse it"


def test_held_text_comes_out_at_the_end() -> None:
    matcher = StopMatcher(("stop",))
    assert matcher.feed("do not sto") == "do not "
    assert matcher.flush() == "sto"
    assert matcher.matched is None


def test_of_two_stop_strings_that_end_together_the_longer_wins() -> None:
    matcher = StopMatcher(("c", "abc"))
    assert matcher.feed("xxabc") == "xx"
    assert matcher.matched == "abc"


def test_the_stop_string_that_is_complete_first_wins() -> None:
    matcher = StopMatcher(("b", "abcd"))
    assert matcher.feed("xxabcd") == "xxa"
    assert matcher.matched == "b"


def test_nothing_comes_out_after_a_match() -> None:
    matcher = StopMatcher(("x",))
    matcher.feed("ax")
    assert matcher.feed("more") == ""


@given(
    st.text(alphabet="ab\n", max_size=40),
    st.lists(st.text(alphabet="ab\n", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.integers(1, 5), min_size=1, max_size=60),
)
def test_any_cutting_of_the_text_gives_the_same_answer(
    text: str, stops: list[str], widths: list[int]
) -> None:
    pieces, position = [], 0
    for width in widths:
        pieces.append(text[position : position + width])
        position += width
    pieces.append(text[position:])
    matches = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    expected = text[: min(matches)[1]] if matches else text
    assert feed_all(StopMatcher(tuple(stops)), pieces) == expected
