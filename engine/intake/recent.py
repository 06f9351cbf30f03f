"""What somebody has sent a moment ago: a conversation comes again with every turn.

It is found by whom it came from alone, so that its time tells nothing to anybody else.
"""

from __future__ import annotations

import collections
import hashlib
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

KEEP_SECONDS = 300.0

T = TypeVar("T")


class _Kept(NamedTuple, Generic[T]):
    used_at: float
    value: T
    num_bytes: int


class Recent(Generic[T]):
    """At most `max_bytes` of it; what was used last goes last. Used by one thread."""

    def __init__(self, *, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept: collections.OrderedDict[bytes, _Kept[T]] = collections.OrderedDict()
        self.num_bytes = 0

    def find(self, whose: str, sent: bytes) -> T | None:
        key = _key(whose, sent)
        if key not in self._kept:
            return None
        kept = self._kept.pop(key)._replace(used_at=self._clock())
        self._kept[key] = kept
        return kept.value

    def keep(self, whose: str, sent: bytes, value: T, *, num_bytes: int) -> None:
        key = _key(whose, sent)
        if former := self._kept.pop(key, None):
            self.num_bytes -= former.num_bytes
        self._kept[key] = _Kept(self._clock(), value, num_bytes)
        self.num_bytes += num_bytes
        self._let_go(lambda _: self.num_bytes > self._max_bytes)

    def forget(self, *, unused_seconds: float) -> None:
        """What nobody has sent for so long."""
        latest = self._clock() - unused_seconds
        self._let_go(lambda used_at: used_at <= latest)

    def _let_go(self, is_wanted: Callable[[float], bool]) -> None:
        while self._kept and is_wanted(next(iter(self._kept.values())).used_at):
            _, gone = self._kept.popitem(last=False)
            self.num_bytes -= gone.num_bytes


def _key(whose: str, sent: bytes) -> bytes:
    name = whose.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(b"%d:%b" % (len(name), name), digest_size=16)
    digest.update(sent)
    return digest.digest()
