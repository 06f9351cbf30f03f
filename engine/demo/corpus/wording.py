"""Many ways to say one thing: alternation in braces, politeness, case, punctuation and typos.

It does not know what the sentences mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

_CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"

_OPENINGS = (
    "Hi! ",
    "Hello! ",
    "Hey, ",
    "Hi, ",
    "Hello, ",
    "Please: ",
    "Quick question: ",
    "Question: ",
    "I have a question. ",
    "Sorry to bother you. ",
    "Good morning! ",
    "One more thing: ",
    "Ok, ",
    "Tell me, ",
    "So, ",
    "Well, ",
    "And ",
    "Oh ",
    "Oh, ",
    "Ah, ",
    "Wow, ",
    "Hmm, ",
    "Yes, ",
    "Now, ",
    "I would like to know: ",
    "Just wondering, ",
)
_CLOSINGS = (" Thanks!", " Thank you.", " please", " Thanks in advance.", ", please?", " :)", " 🙂")
_SMALL_TYPO_RATE = 0.05


def lines(block: str) -> tuple[str, ...]:
    """The lines of an indented block of text, without the empty ones."""
    return tuple(line.strip() for line in block.splitlines() if line.strip())


def vary(rng: Random, template: str, **slots: str) -> str:
    """Choose one of every `{a|b}` group, inner groups first, then fill `$name` slots.

    Braces without a bar stay as they are, so code and JSON survive.
    """
    text = template
    while True:
        text, count = _CHOICE.subn(lambda match: rng.choice(match.group(1).split("|")), text)
        if count == 0:
            break
    for name, value in slots.items():
        text = text.replace("$" + name, value)
    return text


def vary_one(rng: Random, templates: Sequence[str], **slots: str) -> str:
    return vary(rng, rng.choice(templates), **slots)


def ask(rng: Random, question: str) -> str:
    """Say a question as people type it: polite or not, any case, with or without its mark."""
    chance = rng.random()
    if chance < 0.10:
        question = rng.choice(_OPENINGS) + _lower_first(question)
    elif chance < 0.18:
        question = question.rstrip(".") + rng.choice(_CLOSINGS)
    return roughen(rng, question)


def roughen(rng: Random, text: str) -> str:
    """Change case, punctuation or a letter now and then."""
    chance = rng.random()
    if chance < 0.22:
        text = text.lower()
    elif chance < 0.25:
        text = text.upper()
    chance = rng.random()
    if chance < 0.22:
        text = text.rstrip("?.!")
    elif chance < 0.26:
        text = text.rstrip("?.!") + rng.choice(("??", "!!", "...", "?!", " ?", "!", "."))
    if rng.random() < _SMALL_TYPO_RATE:
        text = _mistype(rng, text)
    return text


def _lower_first(text: str) -> str:
    if text[:2] in ("I ", "I'") or text[:2].isupper():
        return text
    return text[:1].lower() + text[1:]


def _mistype(rng: Random, text: str) -> str:
    places = [index for index, letter in enumerate(text) if letter.isascii() and letter.isalpha()]
    if len(places) < 6:
        return text
    at = rng.choice(places)
    match rng.randrange(4):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + rng.choice(_ALPHABET) + text[at + 1 :]
        case 2:
            return text[:at] + text[at] + text[at:]
        case _:
            return text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :]
