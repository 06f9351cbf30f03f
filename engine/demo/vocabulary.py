"""Trains the byte-level BPE tokenizer and writes its two files. It knows no model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.demo.corpus.mixture import draw
from engine.demo.rendering import TEMPLATE_PATH, render

END_OF_TEXT = "<|endoftext|>"
END_OF_TURN = "<|im_end|>"
# Order fixes the ids, from 0 on.
CONTROL_TOKENS = (
    END_OF_TEXT, "<|im_start|>", END_OF_TURN,
    "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
)  # fmt: skip
# Seen by clients, so not skipped when text is decoded.
MARKUP_TOKENS = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
    "<tools>", "</tools>",
)  # fmt: skip
# Digits stand alone, so that arithmetic is done on digits.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPECIAL = CONTROL_TOKENS + MARKUP_TOKENS


def train_tokenizer(*, size: int, lessons: int, seed: int) -> Tokenizer:
    """Learn `size` tokens, special ones included, from freshly drawn lessons."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_plain_texts(Random(seed), lessons), trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in CONTROL_TOKENS])
    tokenizer.add_tokens([AddedToken(name, special=False) for name in MARKUP_TOKENS])
    return tokenizer


def _plain_texts(rng: Random, count: int) -> Iterator[str]:
    for _ in range(count):
        text = render(draw(rng))
        for name in _SPECIAL:
            text = text.replace(name, "\n")
        yield text


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, context: int) -> None:
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "bos_token": None,
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE_PATH.read_text(),
    }
    text = json.dumps(settings, indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n")
