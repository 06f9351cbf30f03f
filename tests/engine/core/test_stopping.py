"""Stop strings on streamed text."""

from __future__ import annotations

import random
import time

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


class PlainMatcher:
    """What StopMatcher says, by looking at all that was said, anew for every piece."""

    def __init__(self, stops: tuple[str, ...]):
        self._stops = stops
        self._said = self._shown = ""
        self.matched: str | None = None

    def feed(self, piece: str) -> str:
        for character in piece if self.matched is None else "":
            self._said += character
            found = [stop for stop in self._stops if self._said.endswith(stop)]
            if found:
                self.matched = max(found, key=len)
                return self._show(len(self._said) - len(self.matched))
        beginnings = {stop[:length] for stop in self._stops for length in range(1, len(stop))}
        held = max((len(one) for one in beginnings if self._said.endswith(one)), default=0)
        return self._show(len(self._said) - held) if self.matched is None else ""

    def flush(self) -> str:
        held, self._said, self._shown = self._said[len(self._shown) :], "", ""
        return held if self.matched is None else ""

    def _show(self, length: int) -> str:
        new, self._shown = self._said[len(self._shown) : length], self._said[:length]
        return new


@given(
    st.lists(st.none() | st.text("ab\né😀", max_size=6), max_size=30),
    st.lists(st.text("ab\né😀", min_size=1, max_size=7), min_size=1, max_size=6).map(tuple),
)
def test_every_piece_shows_what_a_plain_matcher_shows(
    pieces: list[str | None], stops: tuple[str, ...]
) -> None:
    """None: the text is interrupted by something else."""
    matcher, plain = StopMatcher(stops), PlainMatcher(stops)
    for piece in pieces:
        shown = [one.flush() if piece is None else one.feed(piece) for one in (matcher, plain)]
        assert shown[0] == shown[1]
        assert matcher.matched == plain.matched


def test_long_stop_strings_that_overlap_are_found_as_a_plain_matcher_finds_them() -> None:
    dice = random.Random(5)
    for _ in range(200):
        motif = "".join(dice.choices("aab", k=dice.randrange(1, 6)))
        stops = tuple((motif * 20)[: dice.randrange(1, 60)] + dice.choice("abc") for _ in range(8))
        matcher, plain = StopMatcher(stops), PlainMatcher(stops)
        while matcher.matched is None and dice.random() < 0.98:
            piece = dice.choice([motif, motif * 5, "a", "b", dice.choice(stops)[:-1]])
            assert matcher.feed(piece) == plain.feed(piece)
            assert matcher.matched == plain.matched


def test_text_that_never_stops_to_begin_stop_strings_costs_a_row_a_few_microseconds() -> None:
    stops = ("a" * 511 + "b", *("a" * length + "b" * (512 - length) for length in range(240, 255)))
    matchers = [StopMatcher(stops) for _ in range(32)]
    for matcher in matchers:
        matcher.feed("a" * 600)
    seconds = []
    for _ in range(20):
        began = time.perf_counter()
        for matcher in matchers:
            matcher.feed("aaaa")
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 300e-6
