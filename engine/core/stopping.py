"""Stop strings on streamed text: found across token boundaries, never shown in part."""

from __future__ import annotations


class StopMatcher:
    """Text goes in piece by piece; what cannot be part of a stop string any more comes out."""

    def __init__(self, stops: tuple[str, ...]):
        self._stops = stops
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """The text that may be shown. After a match nothing comes out any more."""
        if self.matched is not None:
            return ""
        if not self._stops:
            return text
        text = self._held + text
        if found := self._earliest(text):
            position, self.matched = found
            self._held = ""
            return text[:position]
        shown = len(text) - self._held_length(text)
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """What was held back, once no more text can come."""
        held, self._held = self._held, ""
        return held

    def _earliest(self, text: str) -> tuple[int, str] | None:
        """The match that is complete first, so that it never depends on how the text was cut;
        among those, the longest."""
        found = [(text.find(stop), stop) for stop in self._stops if stop in text]
        return min(found, key=lambda one: (one[0] + len(one[1]), one[0]), default=None)

    def _held_length(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        return max(
            next(
                (n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])),
                0,
            )
            for stop in self._stops
        )
