"""Prompts of a wanted length that nobody has sent before: another label, other words throughout."""

from __future__ import annotations

import random
from pathlib import Path

from tokenizers import Tokenizer

_SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "le",
    "mi",
    "no",
    "sta",
    "ten",
    "mir",
    "lon",
    "pras",
)


class PromptMaker:
    """Counts in tokens of one model's tokenizer. The same label always gives the same prompt."""

    def __init__(self, model_path: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(model_path / "tokenizer.json"))

    def prompt(self, label: str, *, tokens: int) -> str:
        words = _words(random.Random(label), count=tokens)
        token_ids = self._tokenizer.encode(words, add_special_tokens=False).ids
        return self._tokenizer.decode(token_ids[:tokens]).strip()


def _words(chooser: random.Random, *, count: int) -> str:
    return " ".join(
        "".join(chooser.choice(_SYLLABLES) for _ in range(chooser.randint(1, 3)))
        for _ in range(count)
    )
