"""The tokens of pieces of text that came a moment ago: a conversation comes again with every turn.

They are found by whom they came from alone, so that their time tells nothing to anybody else. It
does not know tokenizers.
"""

from __future__ import annotations

import collections
import hashlib
import time
from array import array
from collections.abc import Callable, Iterable

KEEP_SECONDS = 300.0
MAX_BYTES = 16 * 1024**2
_ENTRY_BYTES = 256  # about what one takes beside its tokens


class PieceCache:
    """Used by one thread. What was used last goes last."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pieces: collections.OrderedDict[bytes, tuple[float, array[int]]] = (
            collections.OrderedDict()
        )
        self.num_bytes = 0

    def find(self, whose: str, text: str) -> array[int] | None:
        key = _key(whose, text)
        if key not in self._pieces:
            return None
        _, token_ids = self._pieces.pop(key)
        self._pieces[key] = self._clock(), token_ids
        return token_ids

    def keep(self, whose: str, text: str, token_ids: Iterable[int]) -> array[int]:
        """They are returned as `find` will."""
        key, kept = _key(whose, text), array("I", token_ids)
        if former := self._pieces.pop(key, None):
            self.num_bytes -= _num_bytes(former[1])
        self._pieces[key] = self._clock(), kept
        self.num_bytes += _num_bytes(kept)
        self._let_go(lambda _: self.num_bytes > MAX_BYTES)
        return kept

    def forget(self, *, unused_seconds: float) -> None:
        """What nobody has sent for so long."""
        latest = self._clock() - unused_seconds
        self._let_go(lambda used_at: used_at <= latest)

    def _let_go(self, is_wanted: Callable[[float], bool]) -> None:
        while self._pieces and is_wanted(next(iter(self._pieces.values()))[0]):
            _, (_, token_ids) = self._pieces.popitem(last=False)
            self.num_bytes -= _num_bytes(token_ids)


def _num_bytes(token_ids: array[int]) -> int:
    return token_ids.itemsize * len(token_ids) + _ENTRY_BYTES


def _key(whose: str, text: str) -> bytes:
    said = f"{len(whose)}:{whose}{text}"
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()
