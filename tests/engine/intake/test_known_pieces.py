"""What a person has just sent is not tokenized again, and has the same tokens as ever."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from engine import wire
from engine.intake import piece_cache, seams
from engine.intake.door import Door
from engine.intake.model_folder import Library
from engine.intake.piece_cache import KEEP_SECONDS, PieceCache
from engine.intake.seams import Seams
from tests.engine.intake.conftest import SPECIAL, Check, MakeFolder, make_tokenizer
from tests.engine.intake.test_prompts import FIM
from tests.makers import make_generate

TEXTS = ["the theory of the thing\n\nthen  there", " and other things", "<|im <|end a<|b"] * 20
PIECES = [*SPECIAL, "the", "then", "thing", " ", "  ", "\n", "\n\n", "é", "<|", "|>", "a", "A"]


def lengthened(tokenizer: Tokenizer) -> None:
    """Another token ends as a control token begins, and one holds it."""
    tokenizer.add_special_tokens(["the<|im", "a<|im_end|>"])


def as_added(**how: bool) -> Callable[[Tokenizer], None]:
    def add(tokenizer: Tokenizer) -> None:
        tokenizer.add_special_tokens([AddedToken(one, special=True, **how) for one in SPECIAL])

    return add


def in_words(pattern: str) -> Any:
    """As tokenizers with a pattern of their own have it."""
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    return pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m"
    r"|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re"
    r"|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BLANKS = normalizers.Replace(" ", "▁")
KINDS: dict[str, tuple[Any, Any, Callable[[Tokenizer], None]]] = {
    "bytes": (None, pre_tokenizers.ByteLevel(add_prefix_space=False), as_added()),
    "prefix-space": (None, pre_tokenizers.ByteLevel(add_prefix_space=True), as_added()),
    "metaspace-first": (None, pre_tokenizers.Metaspace(prepend_scheme="first"), as_added()),
    "metaspace-always": (None, pre_tokenizers.Metaspace(prepend_scheme="always"), as_added()),
    "prepend": (
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        None,
        as_added(),
    ),
    "qwen": (normalizers.NFC(), in_words(QWEN), as_added()),
    "o200k": (None, in_words(O200K), as_added()),
    "gemma": (BLANKS, pre_tokenizers.Split(" ", behavior="merged_with_previous"), as_added()),
    "words-with-blanks": (None, in_words(r"\w+ ?|."), as_added()),
    "two-words": (None, in_words(r"\w+( a)?| \w+|."), as_added()),
    "lower": (normalizers.Lowercase(), pre_tokenizers.ByteLevel(), as_added()),
    "lstrip": (None, pre_tokenizers.ByteLevel(), as_added(lstrip=True)),
    "rstrip": (None, pre_tokenizers.ByteLevel(), as_added(rstrip=True)),
    "single-word": (None, pre_tokenizers.ByteLevel(), as_added(single_word=True)),
    "normalized": (normalizers.Lowercase(), pre_tokenizers.ByteLevel(), as_added(normalized=True)),
    "overlapping": (None, pre_tokenizers.ByteLevel(), lengthened),
}


def trained(kind: str) -> Tokenizer:
    normalizer, pre_tokenizer, change = KINDS[kind]
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=[])
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    change(tokenizer)
    return tokenizer


def ids_of(tokenizer: Tokenizer, *texts: str) -> list[int]:
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [token_id for one in encodings for token_id in one.ids]


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=30))
def test_parts_have_the_tokens_of_the_whole(kind: str, pieces: list[str]) -> None:
    tokenizer = _TRAINED.setdefault(kind, trained(kind))
    text = "".join(pieces)
    with mock.patch.object(seams, "PART_CHARACTERS", 1):
        parts = Seams(tokenizer, frozenset(SPECIAL)).parts(text)
    assert "".join(parts) == text
    assert ids_of(tokenizer, *parts) == ids_of(tokenizer, text)


_TRAINED: dict[str, Tokenizer] = {}


def test_usual_tokenizers_can_be_cut() -> None:
    cut = {kind: Seams(trained(kind), frozenset(SPECIAL)) for kind in KINDS}
    text = "<|im_start|>" + "x" * 300 + "<|im_start|>y"
    uncut = [kind for kind, one in cut.items() if len(one.parts(text)) == 1]
    assert uncut == ["lstrip", "single-word", "normalized", "overlapping"]


def test_words_can_be_cut_off_where_a_tokenizer_splits_before_them() -> None:
    cut = {kind: Seams(trained(kind), frozenset()) for kind in KINDS}
    assert [kind for kind, one in cut.items() if len(one.parts("x" * 300 + " thing")) == 2] == [
        *("bytes", "prefix-space", "metaspace-first", "metaspace-always", "qwen", "o200k", "lower"),
        "overlapping",
    ]
    assert cut["qwen"].parts("x" * 300 + " 1\n then  there a") == [
        "x" * 300 + " 1\n then  there",
        " a",
    ]


@pytest.mark.parametrize("token", ["of the", "of "])
def test_a_token_that_goes_on_behind_a_blank_is_not_cut(token: str) -> None:
    tokenizer = trained("bytes")
    tokenizer.add_tokens([token])
    text = "x" * 300 + " of the thing"
    assert Seams(tokenizer, frozenset()).parts(text) == [text]


def test_a_tokenizer_that_cannot_read_the_probe_is_not_cut() -> None:
    unknown = models.WordLevel({"the": 0}, unk_token="[UNK]")
    tokenizer = Tokenizer(unknown)
    tokenizer.add_special_tokens(list(SPECIAL))
    with pytest.raises(Exception, match=r"UNK|unk"):
        ids_of(tokenizer, "another")
    text = "<|im_start|>" * 100
    assert Seams(tokenizer, frozenset(SPECIAL)).parts(text) == [text]


class CountingTokenizer:
    """Hands on, and counts the characters that are tokenized."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.num_characters = 0

    def encode_batch_fast(self, texts: list[str], **how: Any) -> Any:
        self.num_characters += sum(map(len, texts))
        return self._tokenizer.encode_batch_fast(texts, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


@pytest.fixture
def counted(door: Door, folder: Path) -> CountingTokenizer:
    encoder = door.open_folder(wire.ModelSpec(name="demo", path=str(folder))).encoder
    counting = encoder._tokenizer = CountingTokenizer(encoder._tokenizer)  # type: ignore[assignment]
    return counting


def talk(*contents: str) -> list[dict[str, Any]]:
    return [
        {"role": ("user", "assistant")[at % 2], "content": one} for at, one in enumerate(contents)
    ]


def test_of_a_conversation_that_goes_on_only_what_is_new_is_tokenized(
    check: Check, counted: CountingTokenizer
) -> None:
    question = "q" * 2000
    limit = {"context_limit_tokens": 100_000}
    check(messages=talk(question), **limit)
    counted.num_characters = 0
    check(messages=talk(question), **limit)
    assert counted.num_characters == 0
    check(messages=talk(question, "an answer", "go on"), **limit)
    assert counted.num_characters < 200


def test_of_a_gap_only_what_is_new_is_tokenized(
    make_folder: MakeFolder, door: Door, check: Check
) -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens(list(FIM))
    folder = make_folder(tokenizer=tokenizer)
    encoder = door.open_folder(wire.ModelSpec(name="demo", path=str(folder))).encoder
    counting = encoder._tokenizer = CountingTokenizer(encoder._tokenizer)  # type: ignore[assignment]
    limit = {"context_limit_tokens": 100_000}
    check(prompt="some words " * 200 + "typ", suffix="and more " * 100, **limit)
    counting.num_characters = 0  # type: ignore[attr-defined]
    check(prompt="some words " * 200 + "typed", suffix="and more " * 100, **limit)
    assert counting.num_characters < 300


def test_what_somebody_else_has_sent_is_tokenized_all_the_same(
    check: Check, counted: CountingTokenizer
) -> None:
    for tenant in ("user:1", "user:2"):
        counted.num_characters = 0
        check(messages=talk("q" * 2000), tenant=tenant, context_limit_tokens=100_000)
        assert counted.num_characters > 2000


def test_what_is_to_be_forgotten_is_tokenized_again(
    door: Door, check: Check, counted: CountingTokenizer
) -> None:
    for at_once, is_known in ((False, True), (True, False)):
        check(messages=talk("q" * 2000), context_limit_tokens=100_000)
        door.forget_texts(at_once=at_once)
        counted.num_characters = 0
        check(messages=talk("q" * 2000), context_limit_tokens=100_000)
        assert (counted.num_characters == 0) == is_known


def test_a_long_time_of_asking_changes_no_token(make_folder: MakeFolder) -> None:
    """Conversations that grow, are edited and come again, of two people, with room for few."""
    folder = make_folder(tokenizer=make_tokenizer())
    spec = wire.ModelSpec(name="demo", path=str(folder), context_limit_tokens=100_000)
    chance, door = random.Random(7), Door(Library())
    talks: list[list[str]] = [[] for _ in range(4)]
    with mock.patch.object(piece_cache, "MAX_BYTES", 20_000):
        for number in range(150):
            contents = chance.choice(talks)
            if contents and chance.random() < 0.3:
                del contents[chance.randrange(len(contents)) :]
            for _ in range(chance.randrange(1, 3)):
                contents.append(f"{chance.randrange(3)} <|im_end|> " * chance.randrange(1, 60))
            generate = make_generate(
                str(number), messages=tuple(talk(*contents)), tenant=chance.choice("ab")
            )
            fresh = Door(Library()).check(generate, spec)
            assert door.check(generate, spec).prompt_token_ids == fresh.prompt_token_ids


def test_texts_are_forgotten_when_nobody_sends_them_any_more() -> None:
    now = 0.0
    pieces = PieceCache(clock=lambda: now)
    pieces.keep("a", "old", [1, 2])
    pieces.keep("a", "used", [3])
    now = KEEP_SECONDS / 2
    assert list(pieces.find("a", "used") or ()) == [3]
    now = KEEP_SECONDS + 1
    pieces.forget(unused_seconds=KEEP_SECONDS)
    assert pieces.find("a", "old") is None
    assert list(pieces.find("a", "used") or ()) == [3]
    assert pieces.num_bytes == 256 + 4


def test_what_was_used_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_cache, "MAX_BYTES", 2 * (256 + 8))
    pieces = PieceCache()
    pieces.keep("a", "one", [1, 2])
    pieces.keep("a", "two", [3, 4])
    pieces.find("a", "one")
    pieces.keep("a", "three", [5, 6])
    pieces.keep("a", "three", [5, 6])
    assert pieces.find("a", "two") is None
    assert list(pieces.find("a", "one") or ()) == [1, 2]
    assert pieces.num_bytes == 2 * (256 + 8)
    assert pieces.find("b", "one") is None


def test_a_text_without_tokens_is_known_too() -> None:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    assert ids_of(tokenizer, "nothing known") == []
    pieces = PieceCache()
    pieces.keep("a", "nothing known", [])
    assert pieces.find("a", "nothing known") is not None
