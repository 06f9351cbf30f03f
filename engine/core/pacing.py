"""Who gets the next turn of the device, prompts or running rows, and how large a slice may be.

Two numbers say it: `stall_seconds` is the longest that running rows wait for one slice,
`decode_share` the part of the time that is theirs while prompts wait.
Both directions are bounded: a slice costs the running rows at most a stall, and prompts always
get the rest of the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from engine import wire
from engine.core.step import Step

_MOST_SLICE_TOKENS = 2048
_LEAST_SLICE_TOKENS = 16
_ALONE_FACTOR = 4.0  # of a stall, while nobody waits for a token: many prompts fill a batch at once
_LONE_FACTOR = 0.2  # for a single prompt: who arrives during its slice waits for its end
_LARGEST_SHARE = 0.95


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The settings of one model, as one value that a turn reads once."""

    max_rows: int
    stall_seconds: float
    decode_share: float
    most_slice_tokens: int = _MOST_SLICE_TOKENS
    least_slice_tokens: int = _LEAST_SLICE_TOKENS
    most_turn_tokens: int | None = None  # of all slices of a turn, where memory bounds them
    most_row_bytes: int | None = None  # of the rows that decode, padded, likewise
    draft_tokens: int = 0  # at most, for a row that decodes alone

    @classmethod
    def of(cls, spec: wire.ModelSpec, *, may_batch: bool) -> Pace:
        return cls(
            max_rows=spec.max_rows if may_batch else 1,
            stall_seconds=spec.stall_ms / 1000,
            decode_share=min(max(spec.decode_share, 0.0), _LARGEST_SHARE),
            most_slice_tokens=max(spec.most_slice_tokens, _LEAST_SLICE_TOKENS),
            draft_tokens=spec.draft_tokens,
        )

    def within(self, turn_tokens: int) -> Pace:
        """The same with no more tokens in a turn."""
        if self.most_turn_tokens is not None:
            turn_tokens = min(turn_tokens, self.most_turn_tokens)
        return dataclasses.replace(self, most_turn_tokens=turn_tokens)

    def share(self, *, num_decoding: int, num_short_prompts: int) -> float:
        """The running rows' part of the time. Prompts that one slice completes fill the batch:
        decoding before they are in it costs a pass over the weights for few rows.
        """
        return self.decode_share * num_decoding / max(1, num_decoding + num_short_prompts)

    def turn_seconds(self, *, someone_decodes: bool) -> float:
        """Of a turn of prompts or texts."""
        return self.stall_seconds * (1.0 if someone_decodes else _ALONE_FACTOR)

    def lone_seconds(self, *, efficient_seconds: float) -> float:
        """Of a turn of one prompt while nobody decodes. `efficient_seconds`: a piece that takes
        less costs its prompt more than it saves a newcomer.
        """
        most = self.turn_seconds(someone_decodes=False)
        if self.decode_share == 0:
            return most
        return min(most, max(self.stall_seconds * _LONE_FACTOR, efficient_seconds))


def strictest(paces: Sequence[Pace]) -> Pace | None:
    """What rows of several models are promised together: the shortest stall, the largest share."""
    if not paces:
        return None
    return dataclasses.replace(
        paces[0],
        stall_seconds=min(one.stall_seconds for one in paces),
        decode_share=max(one.decode_share for one in paces),
    )


class Reader(Protocol):
    """The prompts or texts of one model."""

    @property
    def has_prompts(self) -> bool: ...


class TimeLedger:
    """Seconds of decoding owed to running rows for slices they waited for, whatever model theirs
    is and the slices'. One per device.

    A decode step pays back what it has taken. Those that the device has not finished count with
    what steps took lately.
    """

    def __init__(self) -> None:
        self._owed_seconds = 0.0
        self._waited_seconds = 0.0  # for slices since the last decode step
        self._decode_seconds = 0.01
        self.num_slices_in_flight = 0
        self.num_decodes_in_flight = 0
        self._line: list[Reader] = []

    @property
    def owes_decode(self) -> bool:
        return self._owed_seconds > self._decode_seconds * (self.num_decodes_in_flight + 0.5)

    def may_wait(self, seconds: float, *, most: float) -> bool:
        """Whether rows may wait for a slice of so many seconds before they get what is owed: they
        are then owed no more than `most`, and wait no longer at a stretch."""
        return max(self._owed_seconds, self._waited_seconds) + seconds <= most

    @property
    def decode_seconds(self) -> float:
        """What a decode step takes, as measured lately."""
        return self._decode_seconds

    def stand_in_line(self, reader: Reader) -> bool:
        """Is the next slice this model's? While somebody decodes, models read in turns."""
        self._line = [one for one in self._line if one.has_prompts]
        if reader not in self._line:
            self._line.append(reader)
        return self._line[0] is reader

    def leave_line(self, reader: Reader) -> None:
        """It has had its slice, or cannot take it now."""
        self._line = [one for one in self._line if one is not reader]

    def note_in_flight(self, step: Step, count: int) -> None:
        """`count` 1: the device begins it; -1: it has ended, or never will."""
        self.num_slices_in_flight += count * bool(step.slices)
        self.num_decodes_in_flight += count * bool(step.decodes)

    def book_slice(self, seconds: float, *, share: float) -> None:
        self._owed_seconds += seconds * share / (1 - share)
        self._waited_seconds += seconds

    def book_decode(self, seconds: float) -> None:
        """A step has taken so long."""
        self._owed_seconds = max(0.0, self._owed_seconds - seconds)
        self._waited_seconds = 0.0
        usual = self._decode_seconds
        self._decode_seconds += 0.1 * (min(seconds, 10 * usual) - usual)

    def forgive(self) -> None:
        """Nobody decodes: nothing is owed to anybody."""
        self._owed_seconds = self._waited_seconds = 0.0
