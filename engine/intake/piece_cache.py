"""The tokens of pieces of text that came a moment ago (recent.py). It does not know tokenizers."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable

from engine.intake.recent import KEEP_SECONDS, Recent

__all__ = ["KEEP_SECONDS", "MAX_BYTES", "PieceCache"]

MAX_BYTES = 16 * 1024**2
_ENTRY_BYTES = 256  # about what one takes beside its tokens


class PieceCache:
    """Used by one thread. What was used last goes last."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._recent: Recent[array[int]] = Recent(max_bytes=MAX_BYTES, clock=clock)

    @property
    def num_bytes(self) -> int:
        return self._recent.num_bytes

    def find(self, whose: str, text: str) -> array[int] | None:
        return self._recent.find(whose, _as_bytes(text))

    def keep(self, whose: str, text: str, token_ids: Iterable[int]) -> array[int]:
        """They are returned as `find` will."""
        kept = array("I", token_ids)
        num_bytes = kept.itemsize * len(kept) + _ENTRY_BYTES
        self._recent.keep(whose, _as_bytes(text), kept, num_bytes=num_bytes)
        return kept

    def forget(self, *, unused_seconds: float) -> None:
        """What nobody has sent for so long."""
        self._recent.forget(unused_seconds=unused_seconds)


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
