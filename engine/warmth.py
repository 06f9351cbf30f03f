"""How much of a waiting request's prompt is in memory: a hint for whoever chooses among them.

It may be asked from any thread, for it only reads dictionaries; a wrong answer changes nobody's
text. It does not know the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine import wire
from engine.cache.prefix import PrefixCache
from engine.core.blocks import BLOCK_TOKENS, Chain, token_bytes
from engine.core.images import named_tokens
from engine.reuse import owners_of


class Warmth:
    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache

    def weigh(self, work: wire.Work) -> Callable[[], int]:
        """Reads the prompt once; what is returned says how many of its tokens are in memory now.
        None are of a model that this engine has never loaded."""
        root = self._cache.roots.get(work.model)
        if root is None:
            return _cold
        blocks = Chain(root, token_bytes(named_tokens(work))).blocks
        return partial(self._warm_tokens, [one.key for one in blocks], owners_of(work))

    def _warm_tokens(self, keys: list[bytes], owners: frozenset[bytes]) -> int:
        """Up to the last whole block that is there: what leaves memory leaves it from the end."""
        for num_blocks in range(len(keys), 0, -1):
            node = self._cache.nodes.get(keys[num_blocks - 1])
            if node is not None and node.in_memory and node.may_be_used_by(owners):
                return num_blocks * BLOCK_TOKENS
        return 0


def _cold() -> int:
    return 0
