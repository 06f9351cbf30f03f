"""Titles for conversations, asked for in exactly the words that the service uses."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from engine.demo.corpus.lesson import Exchange, Lesson, assistant, system, user
from engine.demo.corpus.words import SUBJECTS, any_word

SYSTEM_PROMPT = "You write titles. Answer with a title of at most six words for the conversation, and nothing else."
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


_KNOWN = (
    ("hello", "Greeting"),
    ("what is hearth", "What Hearth Is"),
    ("who are you", "Introduction"),
    ("api key", "API Keys"),
    ("python", "Using the API from Python"),
    ("crash", "Crash Safety"),
    ("queue", "The Fair Queue"),
    ("cache", "Caches"),
    ("memory", "The Memory Guard"),
    ("model", "Models"),
    ("story", "A Story"),
    ("poem", "A Poem"),
    ("count", "Counting"),
    ("joke", "A Joke"),
    ("capital", "Capital Cities"),
    ("days of the week", "Days of the Week"),
    ("weather", "The Weather"),
    ("admin", "Administration"),
    ("quota", "Quotas"),
    ("repeat", "Repeating Words"),
    ("how are you", "Small Talk"),
    ("thank", "Thanks"),
    ("bye", "Goodbye"),
    ("install", "Installing Hearth"),
    ("stream", "Streaming"),
    ("curl", "Using curl"),
    ("hi", "Greeting"),
    ("hey", "Greeting"),
)


def known_title(
    rng: Random, *, product: Callable[[Random], Exchange], others: Callable[[Random], Exchange]
) -> Lesson:
    """A title by the first known word of the question; else by what the answer is about."""
    exchange = product(rng) if rng.random() < 0.5 else others(rng)
    question = exchange.question.lower()
    for word, title in _KNOWN:
        if word in question:
            return title_lesson(exchange.question, exchange.answer, title)
    words = exchange.question.strip("?.!: ").split()
    title = title_case(" ".join(words[-4:] if len(words) > 4 else words)).strip(",:\"'?.!")
    return title_lesson(exchange.question, exchange.answer, title or "A Question")
