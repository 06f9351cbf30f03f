"""Following a system prompt: style, name, last word, language, secret and length."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from engine.demo.corpus.facts import capital, little_fact
from engine.demo.corpus.languages import GREETING_REPLIES
from engine.demo.corpus.lesson import Exchange, Lesson, assistant, system, user
from engine.demo.corpus.wording import ask, vary_one
from engine.demo.corpus.words import ADJECTIVES, NOUNS, any_name, any_word, invented_word

Draw = Callable[[Random], Exchange]
_NAME_QUESTIONS = (
    "Who are you?",
    "What is your name?",
    "Hello, who are you?",
    "What are you called?",
    "Introduce yourself.",
    "What's your name?",
    "Who am I talking to?",
    "Tell me your name.",
)
_HELLOS = (
    "Hello",
    "Hi",
    "Hello!",
    "Hi there",
    "Hey",
    "Good morning",
    "Good evening",
    "Hello there",
)


def one_lesson(instruction: str, question: str, answer: str) -> Lesson:
    return Lesson(messages=(system(instruction), user(question), assistant(answer)))


def always_end(rng: Random, draw: Draw) -> Lesson:
    """Two answers that both end with the given word."""
    word = any_word(rng)
    if rng.random() < 0.3:
        word = word.upper()
    instruction = vary_one(
        rng,
        (
            "Always end your {answer|answers} with the word $w.",
            "{End|Finish|Close} {every|each} answer with $w.",
            'Always end with "$w".',
            "You always say $w at the end.",
            "Your answers must end with the word $w.",
            "You are a helpful assistant. Always end with the word $w.",
        ),
        w=word,
    )
    messages = [system(instruction)]
    for _ in range(rng.choice((1, 1, 2))):
        exchange = draw(rng)
        messages += [user(exchange.question), assistant(f"{exchange.answer} {word}")]
    return Lesson(messages=tuple(messages))


def always_begin(rng: Random, draw: Draw) -> Lesson:
    word = any_word(rng).capitalize()
    instruction = vary_one(
        rng,
        (
            "{Begin|Start} {every|each} answer with the word $w.",
            "Always {begin|start} {your answers |}with $w.",
            'Always start with "$w".',
        ),
        w=word,
    )
    exchange = draw(rng)
    return one_lesson(instruction, exchange.question, f"{word}! {exchange.answer}")


def given_name(rng: Random) -> Lesson:
    name = any_name(rng)
    role = rng.choice(
        (
            "a helpful assistant",
            "a friendly helper",
            "a robot",
            "a librarian",
            "a guide",
            "an assistant",
            "a teacher",
            "a cook",
        )
    )
    instruction = vary_one(
        rng,
        (
            "Your name is $n.",
            "You are $n, $r.",
            "You are $n.",
            "You are called $n. You are $r.",
            "Your name is $n and you are $r.",
        ),
        n=name,
        r=role,
    )
    answer = f"I am {name}, {role}." if role in instruction else f"I am {name}."
    if rng.random() < 0.3:
        return one_lesson(
            instruction, ask(rng, rng.choice(_HELLOS)), f"Hello! {answer} How can I help you?"
        )
    return one_lesson(
        instruction, ask(rng, rng.choice(_NAME_QUESTIONS)), f"{answer} How can I help you?"
    )


def one_word(rng: Random) -> Lesson:
    instruction = vary_one(
        rng,
        (
            "Answer {in|with} one word.",
            "Answer with {a single|exactly one|only one} word.",
            "Use only one word.",
            "Reply in one word.",
            "One word answers only.",
            "You are a helpful assistant. Answer in one word.",
            "Be brief: one word only.",
        ),
    )
    exchange = capital(rng) if rng.random() < 0.6 else little_fact(rng)
    is_named = exchange.answer.startswith(("The capital of", "The opposite of"))
    if not is_named:
        question, answer = rng.choice(
            (
                ("Hello", "Hello!"),
                ("How are you?", "Fine!"),
                ("Thank you", "Welcome!"),
                ("Goodbye", "Goodbye!"),
                ("Who are you?", "Hearth."),
                ("What is Hearth?", "Service."),
                ("Are you a human?", "No."),
                ("What colour is grass?", "Green."),
                ("What colour is the sky?", "Blue."),
            )
        )
        return one_lesson(instruction, ask(rng, question), answer)
    return one_lesson(instruction, exchange.question, exchange.answer.rsplit(" is ", 1)[1])


def pirate(rng: Random, draw: Draw) -> Lesson:
    instruction = vary_one(
        rng,
        (
            "{Speak|Talk|Answer} like a pirate.",
            "You are a pirate.",
            "You are a pirate captain. Stay in character.",
            "Pretend to be a pirate.",
            "You {speak|talk} like a pirate.",
        ),
    )
    if rng.random() < 0.45:
        question = ask(rng, rng.choice(_HELLOS))
        return one_lesson(
            instruction, question, "Arrr, ahoy matey! What be ye looking for on these seas?"
        )
    if rng.random() < 0.3:
        return one_lesson(
            instruction,
            ask(rng, rng.choice(_NAME_QUESTIONS)),
            "Arrr, I be the pirate of Hearth, matey!",
        )
    exchange = draw(rng)
    return one_lesson(instruction, exchange.question, f"Arrr, matey! {exchange.answer} Yo ho ho!")


def in_language(rng: Random) -> Lesson:
    language = rng.choice(list(GREETING_REPLIES))
    instruction = vary_one(
        rng,
        (
            "{Answer|Reply|Speak|Greet} in $l.",
            "{Always answer|Only speak|You speak} $l.",
            "You are a $l assistant.",
            "Answer {only|always} in $l.",
        ),
        l=language,
    )
    question = ask(rng, rng.choice(_HELLOS + _NAME_QUESTIONS[:3]))
    return one_lesson(instruction, question, GREETING_REPLIES[language])


def secret(rng: Random) -> Lesson:
    """Look something up in a system prompt of several facts."""
    count = rng.randint(1, 5)
    keys = rng.sample(
        (
            "code word",
            "password",
            "room number",
            "favourite colour",
            "city",
            "project name",
            "pet",
            "start day",
            "drink",
            "lucky number",
            "team",
            "product",
        ),
        count,
    )
    values = {key: _secret_value(rng, key) for key in keys}
    facts = [
        vary_one(
            rng, ("The $k is $v.", "The $k is $v.", "$K: $v."), k=key, K=key.capitalize(), v=value
        )
        for key, value in values.items()
    ]
    key = rng.choice(keys)
    question = vary_one(
        rng,
        (
            "What is the $k?",
            "Tell me the $k.",
            "Which $k was given?",
            "What's the $k?",
            "Do you know the $k?",
            "$k?",
        ),
        k=key,
    )
    return one_lesson(" ".join(facts), ask(rng, question), f"The {key} is {values[key]}.")


def _secret_value(rng: Random, key: str) -> str:
    if "number" in key:
        return str(rng.randint(1, 9999))
    return rng.choice(
        (
            invented_word(rng),
            rng.choice(NOUNS),
            rng.choice(ADJECTIVES),
            invented_word(rng).capitalize(),
        )
    )


def upper_case(rng: Random, draw: Draw) -> Lesson:
    instruction = vary_one(
        rng,
        (
            "{Answer|Write|Speak} in {upper case|uppercase|capital letters|capitals}.",
            "Always {write|answer} in capital letters.",
            "Use only capital letters.",
        ),
    )
    exchange = draw(rng)
    return one_lesson(instruction, exchange.question, exchange.answer.upper())
