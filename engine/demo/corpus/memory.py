"""Remembering across turns: a name, a thing or a number that was told earlier."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from engine.demo.corpus.lesson import Exchange, Lesson, Message, assistant, user
from engine.demo.corpus.wording import ask, vary_one
from engine.demo.corpus.words import CITIES, NOUNS, any_name, invented_word

Draw = Callable[[Random], Exchange]
_TELLS = {
    "name": (
        (
            "My name is $v.",
            "I am $v.",
            "I'm $v.",
            "Hi, my name is $v.",
            "Hello, I am $v.",
            "Call me $v.",
            "Please call me $v.",
            "Hello, my name is $v!",
            "This is $v speaking.",
            "Remember my name: $v.",
            "You can call me $v.",
        ),
        "Nice to meet you, $v! How can I help you?",
        (
            "What is my name?",
            "What's my name?",
            "Who am I?",
            "Do you remember my name?",
            "Do you know my name?",
            "Say my name.",
            "How am I called?",
            "Tell me my name.",
            "Can you tell me my name?",
            "What did I say my name was?",
            "What was my name again?",
        ),
        "Your name is $v.",
    ),
    "city": (
        ("I live in $v.", "I am from $v.", "My city is $v.", "I come from $v.", "My home is $v."),
        "$v sounds like a nice place.",
        (
            "Where do I live?",
            "Where am I from?",
            "Which city do I live in?",
            "What is my city?",
            "Do you remember where I live?",
            "Where do I come from?",
        ),
        "You are from $v.",
    ),
    "word": (
        (
            "Remember the word $v.",
            "Please remember: $v.",
            "The code word is $v.",
            "Remember this word: $v.",
            "Keep the word $v in mind.",
            "The secret word is $v.",
        ),
        "I will remember the word $v.",
        (
            "What was the word?",
            "Which word did I tell you?",
            "What is the code word?",
            "What was the secret word?",
            "Do you remember the word?",
            "Tell me the word.",
            "What word should you remember?",
        ),
        "The word is $v.",
    ),
    "number": (
        (
            "Remember the number $v.",
            "My number is $v.",
            "My favourite number is $v.",
            "My lucky number is $v.",
            "The number is $v.",
        ),
        "I will remember the number $v.",
        (
            "What was the number?",
            "What is my {favourite |lucky |}number?",
            "Which number did I tell you?",
            "Do you remember {my|the} number?",
            "Tell me my number.",
        ),
        "Your number is $v.",
    ),
    "colour": (
        ("My favourite {colour|color} is $v.", "I like the {colour|color} $v best.", "I love $v."),
        "$V is a beautiful colour.",
        (
            "What is my favourite {colour|color}?",
            "Which {colour|color} do I like?",
            "Do you remember my favourite {colour|color}?",
        ),
        "Your favourite colour is $v.",
    ),
    "pet": (
        (
            "I have a {dog|cat|rabbit|bird} called $v.",
            "My {dog|cat|rabbit} is called $v.",
            "My pet is called $v.",
        ),
        "$v is a lovely name for a pet.",
        ("What is my pet called?", "What is the name of my {pet|animal}?", "How is my pet called?"),
        "Your pet is called $v.",
    ),
}
_COLOURS = ("red", "blue", "green", "yellow", "orange", "purple", "black", "white", "pink", "brown")


def _value(rng: Random, kind: str) -> str:
    match kind:
        case "number":
            return str(rng.randint(0, 999))
        case "colour":
            return rng.choice(_COLOURS)
        case "city":
            return rng.choice(CITIES)
        case "word":
            return rng.choice(NOUNS) if rng.random() < 0.6 else invented_word(rng)
        case _:
            return any_name(rng)


def _fill(rng: Random, frames: tuple[str, ...], value: str) -> str:
    return vary_one(rng, frames, v=value, V=value[:1].upper() + value[1:])


def recall(rng: Random, draw: Draw) -> Lesson:
    """Tell one to three things, talk about something else, then ask for them."""
    kinds = rng.sample(list(_TELLS), rng.choice((1, 1, 1, 2, 2, 3)))
    values = {kind: _value(rng, kind) for kind in kinds}
    messages: list[Message] = []
    for kind in kinds:
        tells, reply, _, _ = _TELLS[kind]
        messages += [
            user(_fill(rng, tells, values[kind])),
            assistant(_fill(rng, (reply,), values[kind])),
        ]
        if rng.random() < 0.3:
            messages += draw(rng).messages
    for _ in range(rng.choice((0, 0, 1, 2, 3, 6, 10))):
        messages += draw(rng).messages
    for kind in rng.sample(kinds, rng.randint(1, len(kinds))):
        _, _, asks, answer = _TELLS[kind]
        messages += [
            user(ask(rng, vary_one(rng, asks))),
            assistant(_fill(rng, (answer,), values[kind])),
        ]
    return Lesson(messages=tuple(messages))


def never_told(rng: Random, draw: Draw) -> Lesson:
    """Asked for something that was not said: say so."""
    kind = rng.choice(list(_TELLS))
    _, _, asks, _ = _TELLS[kind]
    messages = [message for _ in range(rng.choice((0, 0, 1))) for message in draw(rng).messages]
    messages += [
        user(ask(rng, vary_one(rng, asks))),
        assistant(
            f"You have not told me your {kind} yet."
            if kind != "word"
            else "You have not told me a word yet."
        ),
    ]
    return Lesson(messages=tuple(messages))


def last_question(rng: Random, draw: Draw) -> Lesson:
    """What did I just ask?"""
    exchange = draw(rng)
    question = vary_one(
        rng,
        (
            "What did I {just |}ask{| you}?",
            "What was my {last|first|previous} question?",
            "Repeat my question.",
            "What did I say?",
        ),
    )
    messages = (*exchange.messages, user(question), assistant(f'You wrote: "{exchange.question}"'))
    return Lesson(messages=messages)
