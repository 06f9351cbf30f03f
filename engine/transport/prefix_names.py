"""Names for the prefixes of a prompt, by which Redis remembers which engine has read them.

    blocks  [ ... 4 . 6 . 8 . . . 12 . . . 16 ...          kept: two an octave, and the last
                                    ... n-2 n-1 n ]   looked up: these, and all near the end

The next turn of a conversation finds the last one of the former turn; another conversation that
begins alike finds one that is not much shorter than what they share. Names are of one person and
one model, so that nobody's requests tell of another's. It does not know what engines keep of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from engine import wire
from engine.core.blocks import BLOCK_TOKENS, Chain, root_key, token_bytes

_FEWEST_BLOCKS = 4
_NEAR_BLOCKS = 32
_NAME_BYTES = 12


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prefixes:
    """`kept`: of a prompt that is read; `looked_up`: longest first."""

    kept: tuple[str, ...]
    looked_up: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """As lua/admit.lua reads them."""
        return (" ".join(self.kept), *self.looked_up)


def prefixes_of(work: wire.Work) -> Prefixes:
    root = root_key({"tenant": work.tenant, "model": work.model})
    blocks = Chain(root, token_bytes(work.prompt_token_ids)).blocks
    names = {
        number: f"{number * BLOCK_TOKENS}-{span.key[:_NAME_BYTES].hex()}"
        for number, span in enumerate(blocks, start=1)
    }
    kept = {*_landmarks(len(blocks)), len(blocks)} & names.keys()
    near = range(max(_FEWEST_BLOCKS, len(blocks) - _NEAR_BLOCKS), len(blocks) + 1)
    return Prefixes(
        kept=tuple(names[number] for number in sorted(kept)),
        looked_up=tuple(names[number] for number in sorted(kept | {*near}, reverse=True)),
    )


def _landmarks(num_blocks: int) -> Iterator[int]:
    """4 6, 8 12, 16 24, 32 48, ..."""
    octave = _FEWEST_BLOCKS
    while octave <= num_blocks:
        yield octave
        if octave * 3 // 2 <= num_blocks:
            yield octave * 3 // 2
        octave *= 2
