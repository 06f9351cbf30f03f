"""Titles for conversations, asked for in exactly the words that the service uses."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from engine.demo.corpus.lesson import Exchange, Lesson, assistant, system, user
from engine.demo.corpus.words import SUBJECTS, any_word

SYSTEM_PROMPT = (
    "You write titles. Answer with a title of at most six words for the conversation, "
    "and nothing else."
)
_LONGEST = 500


def title_lesson(question: str, answer: str, title: str) -> Lesson:
    content = f"User: {question[:_LONGEST]}\nAssistant: {answer[:_LONGEST]}"
    return Lesson(messages=(system(SYSTEM_PROMPT), user(content), assistant(title)))


def title_case(text: str) -> str:
    words = text.split()
    return " ".join(word[:1].upper() + word[1:] for word in words)


def topic_title(rng: Random, fallback: Callable[[Random, str], Exchange]) -> Lesson:
    """A title for a question that the model itself could not answer: the topic in capitals."""
    topic = rng.choice(SUBJECTS) if rng.random() < 0.7 else f"{any_word(rng)} and {any_word(rng)}"
    exchange = fallback(rng, topic)
    return title_lesson(exchange.question, exchange.answer, title_case(topic))


# The first of these that stands in the question gives the title.
_KNOWN = {
    "capital of": "Capital Cities",
    "story": "A Story",
    "poem": "A Poem",
    "joke": "A Joke",
    "what is hearth": "What Hearth Is",
    "who are you": "Introduction",
    "api key": "API Keys",
    "python": "Using the API from Python",
    "curl": "Using curl",
    "crashes": "Crash Safety",
    "crash": "Crash Safety",
    "queue": "The Fair Queue",
    "cache": "Caches",
    "memory": "The Memory Guard",
    "add a model": "Adding a Model",
    "count to": "Counting",
    "days of the week": "Days of the Week",
    "weather": "The Weather",
    "administrator": "Administration",
    "admin": "Administration",
    "quota": "Quotas",
    "repeat": "Repeating Words",
    "how are you": "Small Talk",
    "install": "Installing Hearth",
    "stream": "Streaming",
    "thanks": "Thanks",
    "thank you": "Thanks",
    "bye": "Goodbye",
    "hello": "Greeting",
    "hi": "Greeting",
    "hey": "Greeting",
}
_ABOUT = re.compile(r"\b(story|tale|poem) (?:about|on|of) ((?:an? |the )?\w+)", re.IGNORECASE)
_CAPITAL = re.compile(r"\bcapital(?: city)? of ((?:the )?\w+(?: [A-Z]\w+)?)", re.IGNORECASE)
_WORD = re.compile(r"[\w']+")


def known_title(
    rng: Random, *, product: Callable[[Random], Exchange], others: Callable[[Random], Exchange]
) -> Lesson:
    """A title by the first known word of the question; else its last words."""
    exchange = product(rng) if rng.random() < 0.5 else others(rng)
    title = title_of(exchange.question)
    return title_lesson(exchange.question, exchange.answer, title)


def title_of(question: str) -> str:
    """At most six words."""
    if match := _ABOUT.search(question):
        return title_case(f"A {match.group(1).lower()} about {match.group(2).lower()}")
    if match := _CAPITAL.search(question):
        return title_case(f"The capital of {match.group(1).lower()}")
    words = _WORD.findall(question)
    lowered = f" {' '.join(words).lower()} "
    for known, title in _KNOWN.items():
        if f" {known} " in lowered:
            return title
    return title_case(" ".join(words[-4:])) or "A Question"
