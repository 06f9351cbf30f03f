"""Everyday words read from text/words.toml, and words that nobody has seen before."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random

_TEXT = Path(__file__).with_name("text") / "words.toml"


def _read_lists() -> dict[str, tuple[str, ...]]:
    blocks: dict[str, str] = tomllib.loads(_TEXT.read_text())
    return {
        name: tuple(word.strip() for word in block.replace("\n", " ").split("|"))
        for name, block in blocks.items()
    }


_LISTS = _read_lists()
FIRST_NAMES = _LISTS["first_names"]
NOUNS = _LISTS["nouns"]
ADJECTIVES = _LISTS["adjectives"]
VERBS = _LISTS["verbs"]
CITIES = _LISTS["cities"]
LONG_WORDS = _LISTS["long_words"]
SUBJECTS = _LISTS["subjects"]
DEEDS = _LISTS["deeds"]
_KNOWN_WORDS = NOUNS + ADJECTIVES + LONG_WORDS + VERBS

_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"


def invented_word(rng: Random, *, syllables: int | None = None) -> str:
    """A pronounceable word that is in no list, so that copying it must be learned."""
    count = syllables or rng.choice((1, 2, 2, 3))
    parts = [rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(count)]
    return "".join(parts) + (rng.choice(_CONSONANTS) if rng.random() < 0.6 else "")


def any_word(rng: Random) -> str:
    chance = rng.random()
    if chance < 0.55:
        return rng.choice(NOUNS)
    if chance < 0.7:
        return rng.choice(ADJECTIVES)
    if chance < 0.8:
        return rng.choice(LONG_WORDS)
    if chance < 0.9:
        return rng.choice(VERBS)
    return invented_word(rng)


def any_name(rng: Random) -> str:
    if rng.random() < 0.75:
        return rng.choice(FIRST_NAMES)
    return invented_word(rng).capitalize()


def known_word(rng: Random) -> str:
    return rng.choice(_KNOWN_WORDS)
