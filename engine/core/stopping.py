"""Stop strings on streamed text: found across token boundaries, never shown in part."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Text goes in piece by piece; what cannot be part of a stop string any more comes out.

    A match is the one that is complete first, so that it never depends on how the text was cut;
    among those, the longest.
    """

    def __init__(self, stops: tuple[str, ...]):
        self._nothing = self._begun = _Beginning(stops)
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """The text that may be shown. After a match nothing comes out any more."""
        if self.matched is not None:
            return ""
        if not self._held and self._nothing.is_followed_by_none_of(text):
            return text
        for index, character in enumerate(text):
            self._begun = self._begun.then(character)
            if self._begun.matched is not None:
                self.matched = self._begun.matched
                return (self.flush() + text[: index + 1])[: -len(self.matched)]
        text = self._held + text
        shown = len(text) - self._begun.length
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """What was held back, once no more text can come."""
        held, self._held, self._begun = self._held, "", self._nothing
        return held


class _Beginning:
    """The longest end of the text that begins stop strings: a state of Aho and Corasick's automaton
    (1975), which reads a character in constant time on average, however many and long they are.

    Of long ones few are ever seen, so that it is made when the text comes there first.
    `shorter`: the longest end of this one that begins stop strings too; None: this one is empty.
    `matched`: the longest stop string that it ends with.
    """

    __slots__ = ("_longer", "_shorter", "_stops_by_next", "length", "matched")

    def __init__(
        self, stops: Sequence[str], length: int = 0, shorter: _Beginning | None = None
    ) -> None:
        self.length = length
        self.matched: str | None = shorter.matched if shorter is not None else None
        self._shorter = shorter
        self._longer: dict[str, _Beginning] = {}
        self._stops_by_next: dict[str, list[str]] = {}
        for stop in stops:
            if len(stop) == length:
                self.matched = stop
            else:
                self._stops_by_next.setdefault(stop[length], []).append(stop)

    def is_followed_by_none_of(self, text: str) -> bool:
        return self._stops_by_next.keys().isdisjoint(text)

    def then(self, character: str) -> _Beginning:
        """Where the text is with one more."""
        begun = self
        while character not in begun._stops_by_next:
            if begun._shorter is None:
                return begun
            begun = begun._shorter
        return begun._longer.get(character) or begun._extended(character)

    def _extended(self, character: str) -> _Beginning:
        # This is as deep as stop strings are many: what a longer one begins with is made already.
        shorter = self if self._shorter is None else self._shorter.then(character)
        longer = _Beginning(self._stops_by_next[character], self.length + 1, shorter)
        self._longer[character] = longer
        return longer
