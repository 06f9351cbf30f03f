"""Names of prefixes: blocks of tokens under a chained key. It does not know what is stored under them.

    tokens  [ block 0 | block 1 | ... | block n-1 | tail ]     256 each, the tail shorter
    key(i) = SHA-256(tag, key(i-1), tokens of block i)          so a key names the whole prefix

A tail is a block of fewer tokens: the end of a prompt or of a turn. Keys of two models, tokenizers or
templates never meet, because the chain starts at a root made of tagged, length-prefixed fields.
"""

from __future__ import annotations

import array
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence

BLOCK_TOKENS = 256
TOKEN_BYTES = 4

_ROOT_TAG = b"hearth/root/1"
_BLOCK_TAG = b"hearth/block/1"


def root_key(fields: Mapping[str, str]) -> bytes:
    """32 bytes that stand for everything besides tokens that a stored prefix depends on."""
    digest = hashlib.sha256(_ROOT_TAG)
    for name in sorted(fields):
        for part in (name.encode(), fields[name].encode()):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """One block of a prompt: its key, its parent's key, and where its tokens lie."""

    key: bytes
    parent: bytes
    start: int
    stop: int
    token_bytes: bytes

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start

    @property
    def is_full(self) -> bool:
        return self.num_tokens == BLOCK_TOKENS


def token_bytes(token_ids: Sequence[int]) -> bytes:
    return array.array("I", token_ids).tobytes()


def block_key(parent: bytes, tokens: bytes | memoryview) -> bytes:
    """The key of a block under `parent`; `tokens` is what token_bytes makes of its tokens."""
    return hashlib.sha256(_BLOCK_TAG + parent + tokens).digest()


def spans(root: bytes, tokens: bytes) -> Iterator[Span]:
    """The full blocks of a prompt given as token_bytes, then its tail if there is one."""
    view = memoryview(tokens)
    parent, num_tokens = root, len(tokens) // TOKEN_BYTES
    for start in range(0, num_tokens, BLOCK_TOKENS):
        stop = min(start + BLOCK_TOKENS, num_tokens)
        piece = view[start * TOKEN_BYTES : stop * TOKEN_BYTES]
        key = block_key(parent, piece)
        yield Span(key, parent, start, stop, bytes(piece))
        parent = key


def common_tokens(left: bytes, right: bytes) -> int:
    """How many leading tokens two runs of token_bytes share."""
    longest = min(len(left), len(right))
    if left[:longest] == right[:longest]:
        return longest // TOKEN_BYTES
    low, high = 0, longest // TOKEN_BYTES  # [:low] is equal, [:high] is not
    while high - low > 1:
        middle = (low + high) // 2
        at = middle * TOKEN_BYTES
        low, high = (middle, high) if left[:at] == right[:at] else (low, middle)
    return low
