"""Refuses what can never fit into memory, before anything is promised. It loads and asks nothing.

Every engine says in its heartbeat what a row of each model needs there and has room for. A request
is served by whichever engine has the room; where no engine says anything, nothing is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from engine import wire
from engine.intake import refusal

_LEAST_OUTPUT_TOKENS = 256  # with less room an answer is not worth beginning

Beats = Callable[[], Iterable[wire.EngineStatus]]


class MemoryCheck:
    """`beats`: the engines' last heartbeats."""

    def __init__(self, beats: Beats) -> None:
        self._beats = beats

    def check(self, work: wire.Work, *, param: str) -> wire.Work:
        """The work, its answer no longer than there is room for. Raises Refusal."""
        places = self._places(work.model)
        if not places:
            return work
        best = max(places, key=lambda one: one.most_tokens(work))
        room_tokens = best.most_tokens(work) - len(work.prompt_token_ids)
        if room_tokens >= min(work.max_tokens, _LEAST_OUTPUT_TOKENS):
            return wire.replace(work, max_tokens=min(work.max_tokens, room_tokens))
        raise refusal.does_not_fit(
            param,
            needed_bytes=best.needed_bytes(work),
            limit_bytes=best.limit_bytes,
            shorter_by_tokens=min(work.max_tokens, _LEAST_OUTPUT_TOKENS) - room_tokens,
            fitting_output_tokens=max(0, room_tokens),
            unloadable=best.pinned_in_the_way(work),
        )

    def check_vectors(self, work: wire.VectorWork, *, param: str) -> wire.VectorWork:
        """The work, if its longest text fits alone; `param` holds the texts. Raises Refusal."""
        places = self._places(work.model)
        lengths = [len(one) for one in work.inputs]
        longest = max(lengths)
        if not places or any(one.room_tokens(longest) == longest for one in places):
            return work
        best = max(places, key=lambda one: one.room_tokens(longest))
        raise refusal.does_not_fit(
            f"{param}[{lengths.index(longest)}]",
            needed_bytes=best.bytes_with(longest),
            limit_bytes=best.limit_bytes,
            shorter_by_tokens=longest - best.room_tokens(longest),
            fitting_output_tokens=0,
            unloadable=best.pinned_that_holds(best.bytes_with(longest) - best.limit_bytes),
        )

    def _places(self, model: str) -> list[_Place]:
        return [place for beat in self._beats() for place in _places(beat, model)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One model on one engine."""

    memory: wire.ModelMemory
    needs: wire.RowNeeds
    limit_bytes: int
    others: tuple[wire.ModelMemory, ...]

    def most_tokens(self, work: wire.Work) -> int:
        at_most = len(work.prompt_token_ids) + work.max_tokens
        room_bytes = self.memory.room_bytes - self._looking_bytes(work)
        return self.needs.most_tokens(room_bytes, at_most=at_most)

    def room_tokens(self, at_most: int) -> int:
        """The longest row that there is ever room for."""
        return self.needs.most_tokens(self.memory.room_bytes, at_most=at_most)

    def needed_bytes(self, work: wire.Work) -> int:
        output_tokens = min(work.max_tokens, _LEAST_OUTPUT_TOKENS)
        needed_bytes = self.bytes_with(len(work.prompt_token_ids) + output_tokens)
        return needed_bytes + self._looking_bytes(work)

    def _looking_bytes(self, work: wire.Work) -> int:
        """It looks at one image after the other."""
        return self.needs.image_bytes if work.images else 0

    def bytes_with(self, num_tokens: int) -> int:
        """What would be in use with such a row."""
        return self.limit_bytes - self.memory.room_bytes + self.needs.bytes_for(num_tokens)

    def pinned_in_the_way(self, work: wire.Work) -> str | None:
        return self.pinned_that_holds(self.needed_bytes(work) - self.limit_bytes)

    def pinned_that_holds(self, missing_bytes: int) -> str | None:
        """The smallest pinned model that has so much."""
        pinned = [one for one in self.others if one.is_pinned and one.weight_bytes >= missing_bytes]
        return min(pinned, key=lambda one: one.weight_bytes).name if pinned else None


def _places(beat: wire.EngineStatus, model: str) -> Iterable[_Place]:
    if beat.memory is None:
        return
    for memory in beat.memory.models:
        if memory.name == model and memory.needs is not None:
            yield _Place(
                memory=memory,
                needs=memory.needs,
                limit_bytes=_limit_bytes(beat.memory, memory),
                others=tuple(one for one in beat.memory.models if one is not memory),
            )


def _limit_bytes(engine: wire.MemoryStatus, model: wire.ModelMemory) -> int:
    """The engine's, or what is the model's own where that is less than pinned models leave."""
    pinned_bytes = sum(
        one.weight_bytes for one in engine.models if one.is_pinned and one is not model
    )
    own_bytes = model.weight_bytes + model.room_bytes
    return own_bytes if own_bytes < engine.limit_bytes - pinned_bytes else engine.limit_bytes
