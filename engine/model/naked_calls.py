"""Tells a call that a model wrote without its markers from text: bare JSON of an offered tool.

Only where an answer begins: `{"name": <a tool>, "arguments": {` is held back until it is that, or
is not.
"""

from __future__ import annotations

from engine import wire
from engine.model.call_headers import named_header


class NakedCalls:
    def __init__(self, work: wire.Work):
        self.header = named_header([tool["function"]["name"] for tool in work.tools])
        self._held = ""
        self._is_call = False

    @property
    def is_undecided(self) -> bool:
        return bool(self._held)

    def sort(self, text: str) -> tuple[str, str]:
        """(a part of calls, a part of what is said); both empty while it is not clear."""
        if self._is_call:
            return text, ""
        self._held += text
        match = self.header.match(self._held, partial=True)
        if match is None:
            return "", self.release()
        self._is_call = not match.partial
        return (self.release(), "") if self._is_call else ("", "")

    def release(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return held
