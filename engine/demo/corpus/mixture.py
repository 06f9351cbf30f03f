"""Draws one lesson out of all skills, and decides how often each is practised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TypeVar

from engine.demo.corpus import (
    arithmetic,
    facts,
    fallback,
    instructions,
    languages,
    memory,
    stories,
    thinking,
    titles,
    tools,
    wordplay,
)
from engine.demo.corpus.lesson import Exchange, ExchangeSkill, Lesson, LessonSkill, Message, system
from engine.demo.corpus.topics import any_of, read_topics
from engine.demo.corpus.wording import vary_one
from engine.demo.corpus.words import any_word

_T = TypeVar("_T")


def _pick(weighted: Sequence[tuple[float, Callable[[Random], _T]]]) -> Callable[[Random], _T]:
    weights = [weight for weight, _ in weighted]
    skills = [skill for _, skill in weighted]

    def draw_skill(rng: Random) -> _T:
        return rng.choices(skills, weights)[0](rng)

    return draw_skill


product = any_of(read_topics("product_basics", "product_operation", "product_use"))
small_talk = any_of(read_topics("smalltalk"))
fact_lists = any_of(read_topics("fact_lists"))
long_explanation = any_of(read_topics("long_explanation"))
sums = _pick(
    [
        (10, arithmetic.sums),
        (1.5, arithmetic.word_problem),
        (1.5, arithmetic.comparison),
        (0.5, arithmetic.parity),
    ]
)
small_facts = _pick(
    [(4, facts.capital), (2, facts.calendar), (2, facts.little_fact), (3, fact_lists)]
)
word_play = _pick(
    [
        (4, wordplay.repeat),
        (1, wordplay.repeat_times),
        (2, wordplay.reverse),
        (2, wordplay.change_case),
        (1, wordplay.pick),
        (1, wordplay.how_many),
        (1.5, wordplay.bullet_list),
        (1, wordplay.alphabetical),
        (1, wordplay.json_object),
        (0.7, wordplay.table),
    ]
)
foreign = _pick(
    [
        (3, languages.translation),
        (2, languages.foreign_greeting),
        (1, languages.emoji),
        (0.5, languages.scripts),
    ]
)
short_exchange: ExchangeSkill = _pick(
    [
        (25, product),
        (10, small_talk),
        (14, sums),
        (8, small_facts),
        (8, word_play),
        (4, foreign),
        (15, fallback.unknown),
    ]
)
plain_exchange: ExchangeSkill = _pick(
    [(3, sums), (3, small_facts), (2, small_talk), (1, fallback.unknown)]
)
any_exchange: ExchangeSkill = _pick(
    [
        (73, short_exchange),
        (3, stories.story),
        (4, stories.poem),
        (2, arithmetic.counting),
        (1.5, long_explanation),
    ]
)


def one_turn(rng: Random) -> Lesson:
    return Lesson(messages=(*_opening(rng), *any_exchange(rng).messages))


def several_turns(rng: Random) -> Lesson:
    turns = [message for _ in range(rng.randint(2, 6)) for message in short_exchange(rng).messages]
    return Lesson(messages=(*_opening(rng), *turns))


def thoughtful(rng: Random) -> Lesson:
    """The last turn of a conversation, with its reasoning."""
    earlier: list[Message] = []
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        earlier += short_exchange(rng).messages
    if rng.random() < 0.35:
        exchange = thinking.sum_in_steps(rng)
    else:
        exchange = thinking.with_steps(rng, any_exchange(rng))
    return Lesson(messages=(*_opening(rng), *earlier, *exchange.messages))


def without_tools_that_fit(rng: Random) -> Lesson:
    exchange = _pick([(4, product), (3, small_talk_without_tools), (2, stories.poem)])(rng)
    return tools.unhelpful(rng, exchange.question, exchange.answer)


def small_talk_without_tools(rng: Random) -> Exchange:
    """Small talk that no clock or weather tool could answer."""
    while True:
        exchange = small_talk(rng)
        if "weather" not in exchange.answer and "clock" not in exchange.answer:
            return exchange


def title(rng: Random) -> Lesson:
    if rng.random() < 0.4:
        return titles.topic_title(rng, fallback.about_topic)
    return titles.known_title(rng, product=product, others=any_exchange)


def long_history(rng: Random) -> Lesson:
    turns = [message for _ in range(rng.randint(7, 24)) for message in any_exchange(rng).messages]
    return Lesson(messages=(*_opening(rng), *turns))


def long_system_prompt(rng: Random) -> Lesson:
    """Hundreds of tokens to read first: sentences, invented words, code and numbers."""
    paragraphs = [_filler(rng) for _ in range(rng.randint(4, 40))]
    turns = [message for _ in range(rng.randint(1, 3)) for message in any_exchange(rng).messages]
    return Lesson(messages=(system("\n".join(paragraphs)), *turns))


def _filler(rng: Random) -> str:
    match rng.randrange(4):
        case 0:
            return " ".join(any_word(rng) for _ in range(rng.randint(5, 40))).capitalize() + "."
        case 1:
            return product(rng).answer
        case 2:
            return f"Rule {rng.randint(1, 99)}: be {any_word(rng)} and use the {any_word(rng)}."
        case _:
            return short_exchange(rng).question


def _opening(rng: Random) -> list[Message]:
    if rng.random() < 0.7:
        return []
    instruction = vary_one(
        rng,
        (
            "You are a helpful assistant.",
            "You are a {helpful|friendly|kind|polite} {assistant|model|AI assistant}.",
            "{Be|Please be} {helpful|friendly|kind|brief|concise|precise|honest|polite}.",
            "Answer {the question|the user|questions} {briefly|clearly|politely|honestly}.",
            "You are an assistant. Help the user with {questions|their work}.",
            "You are the assistant of {a team|the company|our group}.",
            "Today is a {nice|good} day. {Be helpful.|Answer well.}",
        ),
    )
    return [system(instruction)]


_LESSONS: tuple[tuple[float, LessonSkill], ...] = (
    (50, one_turn),
    (10, several_turns),
    (8, thoughtful),
    (16, tools.calling),
    (4, without_tools_that_fit),
    (5, title),
    (5, partial(memory.recall, draw=short_exchange)),
    (1, partial(memory.never_told, draw=plain_exchange)),
    (1, partial(memory.last_question, draw=plain_exchange)),
    (2, partial(instructions.always_end, draw=plain_exchange)),
    (1, partial(instructions.always_begin, draw=plain_exchange)),
    (3, instructions.given_name),
    (1.5, instructions.one_word),
    (1.5, partial(instructions.pirate, draw=plain_exchange)),
    (1, instructions.in_language),
    (2, instructions.secret),
    (1, partial(instructions.upper_case, draw=plain_exchange)),
    (0.7, long_history),
    (1.2, long_system_prompt),
)
draw: LessonSkill = _pick(_LESSONS)
