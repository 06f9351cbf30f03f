"""Names of prefixes: blocks of tokens under a chained key. It does not know what they hold.

    tokens  [ block 0 | block 1 | ... | block n-1 | tail ]     256 each, the tail shorter
    key(i) = BLAKE2b(tag, key(i-1), tokens of block i)          so a key names the whole prefix

What stands for an image is named by what it shows (images.py).

A tail is a block of fewer tokens: the end of a prompt or of a turn. Keys of two models, tokenizers
or templates never meet: the chain starts at a root made of tagged, length-prefixed fields.
"""

from __future__ import annotations

import array
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

BLOCK_TOKENS = 256
TOKEN_BYTES = 4
KEY_BYTES = 32

_ROOT_TAG = b"hearth/root/1"
_BLOCK_TAG = b"hearth/block/1"
OPENING_PARENT = b"hearth/opening/1"


def root_key(fields: Mapping[str, str]) -> bytes:
    """32 bytes that stand for everything besides tokens that a stored prefix depends on."""
    digest = hashlib.blake2b(_ROOT_TAG, digest_size=KEY_BYTES)
    for name in sorted(fields):
        for part in (name.encode(), fields[name].encode()):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


class Span(NamedTuple):
    """One block of a chain: its key, its parent's key, and where its tokens lie."""

    key: bytes
    parent: bytes
    start: int
    stop: int
    token_bytes: bytes

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start


def token_bytes(token_ids: Sequence[int]) -> bytes:
    return array.array("I", token_ids).tobytes()


def block_key(parent: bytes, tokens: bytes) -> bytes:
    """The key of a block under `parent`; `tokens` is what token_bytes makes of its tokens."""
    return hashlib.blake2b(_BLOCK_TAG + parent + tokens, digest_size=KEY_BYTES).digest()


class Chain:
    """A run of tokens with its full blocks hashed once; it grows as an answer is written.

    Invariant: `blocks` are all full blocks of `tokens`, in order.
    """

    def __init__(self, root: bytes, tokens: bytes = b"") -> None:
        self.root = root
        self.tokens = b""
        self.blocks: list[Span] = []
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self.tokens) // TOKEN_BYTES

    def extend(self, tokens: bytes) -> None:
        """Append more tokens, given as token_bytes."""
        self.tokens += tokens
        parent = self.blocks[-1].key if self.blocks else self.root
        for start in range(len(self.blocks) * BLOCK_TOKENS, len(self), BLOCK_TOKENS):
            if start + BLOCK_TOKENS <= len(self):
                self.blocks.append(span := self._span(parent, start, start + BLOCK_TOKENS))
                parent = span.key

    def spans(self, num_tokens: int) -> Iterator[Span]:
        """The full blocks of the first `num_tokens` tokens, then their tail if there is one."""
        num_full = num_tokens // BLOCK_TOKENS
        yield from self.blocks[:num_full]
        if num_full * BLOCK_TOKENS < num_tokens:
            parent = self.blocks[num_full - 1].key if num_full else self.root
            yield self._span(parent, num_full * BLOCK_TOKENS, num_tokens)

    def opening(self, num_tokens: int) -> Span:
        """What stands for the answer behind the first `num_tokens` tokens: the last block's tokens
        under a key that no block has, beside all blocks."""
        *_, last = self.spans(num_tokens)
        key = hashlib.blake2b(OPENING_PARENT + last.key, digest_size=KEY_BYTES).digest()
        return last._replace(key=key, parent=OPENING_PARENT)

    def _span(self, parent: bytes, start: int, stop: int) -> Span:
        piece = self.tokens[start * TOKEN_BYTES : stop * TOKEN_BYTES]
        return Span(block_key(parent, piece), parent, start, stop, piece)


def common_tokens(left: bytes, right: bytes) -> int:
    """How many leading tokens two runs of token_bytes share."""
    if left[:TOKEN_BYTES] != right[:TOKEN_BYTES]:
        return 0  # as nearly all do where nothing repeats
    longest = min(len(left), len(right))
    if left[:longest] == right[:longest]:
        return longest // TOKEN_BYTES
    low, high = 0, longest // TOKEN_BYTES  # [:low] is equal, [:high] is not
    while high - low > 1:
        middle = (low + high) // 2
        at = middle * TOKEN_BYTES
        low, high = (middle, high) if left[:at] == right[:at] else (low, middle)
    return low
