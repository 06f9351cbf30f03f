"""Drafts from what the row has already read or written: what followed the last few tokens the last
time they stood there (prompt lookup decoding).

It finds quotations, edits of code, and answers in the form of earlier ones; anything else it leaves
alone. Pure.
"""

from __future__ import annotations

import array
from collections.abc import Sequence

_ORDERS = (8, 3)  # tokens that have to agree; the longer tell more
_TYPE = "I"
_WIDTH = array.array(_TYPE).itemsize


class PromptLookup:
    """Of one row at a time: another one is read anew."""

    def __init__(self) -> None:
        self._row_id: int | None = None
        self._known = bytearray()

    def draft(self, row_id: int, token_ids: Sequence[int], *, at_most: int) -> tuple[int, ...]:
        """Up to `at_most` tokens that may follow `token_ids`, which only grow while the row stays
        the same; none where nothing is found."""
        self._follow(row_id, token_ids)
        for order in _ORDERS:
            if (place := self._last_place(order)) is not None:
                return tuple(token_ids[place : place + at_most])
        return ()

    def _follow(self, row_id: int, token_ids: Sequence[int]) -> None:
        if row_id != self._row_id:
            self._row_id, self._known = row_id, bytearray()
        num_known = len(self._known) // _WIDTH
        self._known += array.array(_TYPE, token_ids[num_known:]).tobytes()

    def _last_place(self, order: int) -> int | None:
        """What follows the latest earlier occurrence of the last `order` tokens."""
        size = order * _WIDTH
        if len(self._known) <= size:
            return None
        wanted, stop = bytes(self._known[-size:]), len(self._known) - 1
        while (found := self._known.rfind(wanted, 0, stop)) >= 0:
            if found % _WIDTH == 0:
                return found // _WIDTH + order
            stop = found + size - 1
        return None
