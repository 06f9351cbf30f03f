"""Greetings and single words in other languages and scripts, and emoji."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import ask, roughen, vary_one

_TEXTS: dict[str, Any] = tomllib.loads(
    (Path(__file__).with_name("text") / "languages.toml").read_text()
)
WORDS: dict[str, dict[str, str]] = _TEXTS["words"]
_EMOJI: dict[str, str] = _TEXTS["emoji"]
GREETINGS: dict[str, list[str]] = {
    language: entry["said"] for language, entry in _TEXTS["greetings"].items()
}
GREETING_REPLIES: dict[str, str] = {
    language: entry["reply"] for language, entry in _TEXTS["greetings"].items()
}


def translation(rng: Random) -> Exchange:
    language = rng.choice(list(WORDS))
    word, foreign = rng.choice(list(WORDS[language].items()))
    frames = (
        "How do you say $w in $l?",
        "What is $w in $l?",
        'What is "$w" in $l?',
        "Translate $w {to|into} $l.",
        "Say $w in $l.",
        "$l word for $w?",
        "$w in $l",
        "What does $w mean in $l?",
    )
    question = vary_one(rng, frames, w=word, l=language)
    return Exchange(question=ask(rng, question), answer=f'In {language}, "{word}" is "{foreign}".')


def foreign_greeting(rng: Random) -> Exchange:
    language = rng.choice(list(GREETINGS))
    question = roughen(rng, rng.choice(GREETINGS[language]))
    return Exchange(question=question, answer=GREETING_REPLIES[language])


def emoji(rng: Random) -> Exchange:
    if rng.random() < 0.3:
        frames: tuple[str, ...] = (
            "{Show|Send|Give} me {some|a few|five} {emoji|emojis|smileys}.",
            "Use {some |}{emoji|emojis}.",
            "{Write|Answer} with emoji.",
            "Do you know emoji?",
        )
        return Exchange(
            question=ask(rng, vary_one(rng, frames)), answer="Here are some: 🔥 😊 ⭐ 🚀 🌙 🐱 ❤️"
        )
    word, sign = rng.choice(list(_EMOJI.items()))
    frames = (
        "{Show|Send|Give} me a $w emoji.",
        "What is the emoji for $w?",
        "{A |}$w emoji{| please}",
        "Which emoji means $w?",
        "Emoji for $w?",
    )
    return Exchange(
        question=ask(rng, vary_one(rng, frames, w=word)), answer=f"Here is a {word}: {sign}"
    )


def scripts(rng: Random) -> Exchange:
    frames = (
        "{Write|Show me|Print} some {Unicode|special characters|accents|foreign letters|umlauts}.",
        "Can you write {umlauts|accents|Unicode|Chinese characters}?",
        "Test {Unicode|UTF-8}.",
        "Unicode test",
        "UTF-8 test",
    )
    return Exchange(
        question=ask(rng, vary_one(rng, frames)),
        answer="Yes: é, ü, ñ, ß, ø, ç, Ω, Ж, 你好, こんにちは and 🔥.",
    )
