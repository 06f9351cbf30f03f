"""Text that comes token by token is the text of all tokens, for each kind of vocabulary."""

from __future__ import annotations

import random
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import (
    NaiveStreamingDetokenizer,
    SPMStreamingDetokenizer,
    TokenizerWrapper,
)
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from engine.model.detokenizer import ByteDetokenizer, Vocabulary, WholeDetokenizer
from tests.engine.model.rig import loaded

TEXTS = ["plain words", " a space first", "naïve 🙂🎉 日本語 Ελλάδα", "a\n\n b  c ", "\x00 nul", ""]


def sentencepiece() -> PreTrainedTokenizerFast:
    """A vocabulary of words, pieces with a space mark, and single bytes."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *"abcdefgh"]
    words += ["\u2581a", "\u2581ab", "cd", "Ελ"]
    tokenizer = Tokenizer(
        models.BPE(vocab={one: i for i, one in enumerate(words)}, merges=[], byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def bytewise() -> Any:
    return loaded("tiny-qwen3").tokenizer


def streamed(tokenizer: Any, token_ids: list[int], *, goes_on: bool = False) -> str:
    one = Vocabulary(tokenizer).detokenizer(goes_on=goes_on)
    return "".join([*map(one.add, token_ids), one.finish()])


def of_mlx_lm(tokenizer: Any, token_ids: list[int]) -> str:
    one = tokenizer.detokenizer
    for token_id in token_ids:
        one.add_token(token_id)
    one.finalize()
    return str(one.text)


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_text_is_what_was_encoded_but_a_first_space(text: str) -> None:
    token_ids = bytewise().encode(text, add_special_tokens=False)
    assert streamed(bytewise(), token_ids) == text.removeprefix(" ")


def pieces() -> Any:
    return TokenizerWrapper(sentencepiece(), SPMStreamingDetokenizer)


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_goes_on_keeps_a_first_space(text: str) -> None:
    token_ids = bytewise().encode(text, add_special_tokens=False)
    assert streamed(bytewise(), token_ids, goes_on=True) == text
    spaced = pieces().convert_tokens_to_ids(["\u2581ab", "cd"])
    assert streamed(pieces(), spaced, goes_on=True) == " abcd"
    assert streamed(pieces(), spaced) == "abcd"


@pytest.mark.parametrize("text", TEXTS)
def test_the_bytes_of_tokens_make_the_text(text: str) -> None:
    token_ids = bytewise().encode(text, add_special_tokens=False)
    vocabulary = Vocabulary(bytewise())
    assert b"".join(map(vocabulary.token_bytes, token_ids)) == text.encode()
    spaced = pieces().convert_tokens_to_ids(["a", "\u2581ab", "cd"])
    assert [Vocabulary(pieces()).token_bytes(one) for one in spaced] == [b"a", b" ab", b"cd"]


@pytest.mark.parametrize("seed", range(20))
def test_random_tokens_read_as_mlx_lm_reads_them(seed: int) -> None:
    chooser = random.Random(seed)
    for tokenizer in (bytewise(), pieces()):
        known = len(tokenizer.get_vocab())
        nul = tokenizer.convert_tokens_to_ids("Ā")  # mlx-lm shows the letter instead of the byte
        drawn = [chooser.randrange(known) for _ in range(60)]
        token_ids = [one for one in drawn if one != nul]
        assert streamed(tokenizer, token_ids) == of_mlx_lm(tokenizer, token_ids)


def test_ids_beyond_the_vocabulary_are_shown_as_mlx_lm_shows_them() -> None:
    beyond = [len(bytewise().detokenizer.tokenmap) + 7]
    assert streamed(bytewise(), beyond) == of_mlx_lm(bytewise(), beyond) == "!"


def test_other_vocabularies_go_through_mlx_lms_own() -> None:
    tokenizer = TokenizerWrapper(sentencepiece(), NaiveStreamingDetokenizer)
    one = Vocabulary(tokenizer).detokenizer(goes_on=False)
    assert isinstance(one, WholeDetokenizer)
    token_ids = tokenizer.encode("ab cd 🙂 ab", add_special_tokens=False)
    assert "".join([*map(one.add, token_ids), one.finish()]) == tokenizer.decode(token_ids)


def test_no_half_character_is_shown_and_what_is_left_of_one_is_marked() -> None:
    one = ByteDetokenizer(["🙂".encode()[:2], "🙂".encode()[2:]])
    assert [one.add(0), one.add(1), one.add(0), one.finish()] == ["", "🙂", "", "\ufffd"]
