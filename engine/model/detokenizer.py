"""Token ids into text, one at a time: a character is shown once all its bytes are there.

What a token's bytes are is decided by mlx-lm's detokenizer of the tokenizer; where it knows them,
text costs a look-up a token, however long the answer is. Others go through mlx-lm's own.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any, Protocol

from mlx_lm.tokenizer_utils import BPEStreamingDetokenizer, SPMStreamingDetokenizer

_BEYOND_VOCABULARY = b"!"  # as mlx-lm shows ids that only the model's padded head has
_SPM_SPACE = "\u2581".encode()


class Detokenizer(Protocol):
    def add(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


class Vocabulary:
    """The tokens of a tokenizer as bytes, read once."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._pieces: list[bytes] | None = None
        self._trims_space = True
        one = tokenizer.detokenizer
        if isinstance(one, BPEStreamingDetokenizer):
            self._pieces = [_bytes_of(piece) for piece in one.tokenmap]
        elif isinstance(one, SPMStreamingDetokenizer):
            self._pieces = [piece.replace(_SPM_SPACE, b" ") for piece in one.tokenmap]
            self._trims_space = one.trim_space

    def detokenizer(self, *, goes_on: bool) -> Detokenizer:
        """`goes_on`: the text follows other text, so that a space at its beginning counts."""
        if self._pieces is None:
            return WholeDetokenizer(self._tokenizer.detokenizer)
        return ByteDetokenizer(self._pieces, trims_space=self._trims_space and not goes_on)

    def token_bytes(self, token_id: int) -> bytes:
        """Of one token, which may end within a character."""
        if self._pieces is None:
            text: str = self._tokenizer.decode([token_id])
            return text.encode()
        return _piece(self._pieces, token_id)


class ByteDetokenizer:
    """For vocabularies whose tokens are runs of bytes, `pieces` by token id."""

    def __init__(self, pieces: Sequence[bytes], *, trims_space: bool = True):
        """`trims_space`: the text's first character is left out if it is a space."""
        self._pieces = pieces
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._trims_space = trims_space

    def add(self, token_id: int) -> str:
        text = self._decode(_piece(self._pieces, token_id))
        return self._trimmed(text) if self._trims_space else text

    def finish(self) -> str:
        """What half a character leaves."""
        return self._trimmed(self._decode(b"", final=True))

    def _trimmed(self, text: str) -> str:
        if self._trims_space and text:
            self._trims_space = False
            return text.removeprefix(" ")
        return text


def _piece(pieces: Sequence[bytes], token_id: int) -> bytes:
    return pieces[token_id] if token_id < len(pieces) else _BEYOND_VOCABULARY


class WholeDetokenizer:
    """Around mlx-lm's, which decodes a line again for every token."""

    def __init__(self, detokenizer: Any):
        self._detokenizer = detokenizer

    def add(self, token_id: int) -> str:
        self._detokenizer.add_token(token_id)
        text: str = self._detokenizer.last_segment
        return text

    def finish(self) -> str:
        self._detokenizer.finalize()
        text: str = self._detokenizer.last_segment
        return text


def _byte_letters() -> dict[str, int]:
    """The letter that stands for each byte in byte-level vocabularies (GPT-2's encoder.py): itself
    where it can be seen, else one of the letters from 256 on."""
    seen = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)}
    hidden = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {
        chr(256 + index): byte for index, byte in enumerate(hidden)
    }


_BYTE_LETTERS = _byte_letters()


def _bytes_of(piece: str | None) -> bytes:
    """Of a token as the vocabulary writes it; added tokens may have letters of their own."""
    return b"".join(
        bytes((_BYTE_LETTERS[letter],)) if letter in _BYTE_LETTERS else letter.encode()
        for letter in piece or ""
    )
