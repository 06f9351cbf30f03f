"""Sets the examination: held-out wordings and freshly drawn values, each with its check.

The seed differs from every training seed; the frames are written in held_out.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from engine.demo import held_out
from engine.demo.answering import Prompt
from engine.demo.corpus import arithmetic, instructions, memory, tool_uses, tools, wordplay
from engine.demo.corpus.lesson import Exchange, Lesson, Message, system, user
from engine.demo.corpus.mixture import long_history, long_system_prompt, plain_exchange
from engine.demo.corpus.thinking import sum_in_steps
from engine.demo.corpus.titles import SYSTEM_PROMPT
from engine.demo.corpus.words import CITIES, any_name, invented_word
from engine.demo.questions import QUESTIONS

_CALL = re.compile(r"^\s*<tool_call>\n(\{.*\})\n</tool_call>$", re.DOTALL)
_DOES_NOT_KNOW = "small demo model"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    skill: str
    prompt: Prompt
    is_right: Callable[[str], bool]


def cases(*, each: int = 60) -> list[Case]:
    """All cases; `each`: how many of every drawn skill."""
    rng = Random("exam")
    return [*_written(), *_sums(rng, each), *_calls(rng, each), *_drawn(rng, each)]


def _written() -> Iterator[Case]:
    for question in QUESTIONS:
        yield _ask("ten questions", question.text, question.is_answered_by, max_tokens=600)
        for text in (
            question.text.lower().rstrip("?."),
            question.text.upper(),
            f"Hi! {question.text}",
        ):
            yield _ask("ten questions, reworded", text, question.is_answered_by, max_tokens=600)
    for skill, pairs in (
        ("product", held_out.PRODUCT),
        ("greetings", held_out.GREETINGS),
        ("facts", held_out.FACTS),
    ):
        for text, expected in pairs:
            yield _ask(skill, text, _contains(expected))
    for text in held_out.UNKNOWN:
        yield _ask("honest about the unknown", text, _contains(_DOES_NOT_KNOW))
    for asked, answered in held_out.TITLED:
        messages = (system(SYSTEM_PROMPT), user(f"User: {asked}\nAssistant: {answered}"))
        yield Case(skill="titles", prompt=Prompt(messages=messages), is_right=_is_title)


def _ask(skill: str, text: str, is_right: Callable[[str], bool], *, max_tokens: int = 256) -> Case:
    return Case(
        skill=skill,
        prompt=Prompt(messages=(user(text),), max_tokens=max_tokens),
        is_right=is_right,
    )


def _contains(expected: str) -> Callable[[str], bool]:
    return lambda answer: expected.lower() in answer.lower()


def _equals(expected: str) -> Callable[[str], bool]:
    return lambda answer: answer.strip() == expected


def _is_title(answer: str) -> bool:
    return 1 <= len(answer.split()) <= 6 and "\n" not in answer


def _sums(rng: Random, each: int) -> Iterator[Case]:
    for _ in range(2 * each):
        left, sign, right, result = arithmetic.numbers_and_sign(rng)
        text = rng.choice(held_out.SUM_FRAMES).format(f"{left} {sign} {right}")
        yield _ask("arithmetic", text, _contains(f"= {result}."))
    for _ in range(each):
        exchange = sum_in_steps(rng)
        prompt = Prompt(messages=(user(exchange.question),), is_thinking=True)
        expected = exchange.answer.rsplit("= ", 1)[1]
        yield Case(skill="thinking", prompt=prompt, is_right=_thinks_then(expected))


def _thinks_then(expected: str) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        reasoning, mark, answer = text.partition("\n</think>\n\n")
        return bool(mark and reasoning.strip()) and expected in answer and "think>" not in answer

    return check


def _calls(rng: Random, each: int) -> Iterator[Case]:
    for _ in range(2 * each):
        use = tool_uses.anything(rng) if rng.random() < 0.6 else rng.choice(tool_uses.USES)(rng)
        yield _call_case("tool calls", use, tools.tools_around(rng, use))
    for _ in range(each // 2):
        use = tool_uses.weather(rng)
        key, city = next(iter(use.arguments.items()))
        use = dataclasses.replace(
            use,
            question=rng.choice(held_out.WEATHER_QUESTIONS).format(city),
            arguments={key: city},
        )
        yield _call_case("tool calls, new wordings", use, (use.tool,))
    for text, expected in held_out.PRODUCT[: each // 2]:
        offered = tuple(tool_uses.anything(rng).tool for _ in range(2))
        prompt = Prompt(messages=(user(text),), tools=offered)
        yield Case(skill="no call without need", prompt=prompt, is_right=_contains(expected))


def _call_case(skill: str, use: tool_uses.Use, offered: tuple[dict[str, Any], ...]) -> Case:
    wanted = {"name": use.tool["function"]["name"], "arguments": use.arguments}

    def check(answer: str) -> bool:
        match = _CALL.match(answer)
        try:
            return match is not None and json.loads(match.group(1)) == wanted
        except json.JSONDecodeError:
            return False

    prompt = Prompt(messages=(user(use.question),), tools=offered)
    return Case(skill=skill, prompt=prompt, is_right=check)


def _drawn(rng: Random, each: int) -> Iterator[Case]:
    exchanges: tuple[tuple[str, Callable[[Random], Exchange]], ...] = (
        ("repeat", wordplay.repeat),
        ("reverse", wordplay.reverse),
        ("upper and lower case", wordplay.change_case),
        ("counting", arithmetic.counting),
        ("comparison", arithmetic.comparison),
    )
    for skill, draw in exchanges:
        for _ in range(each // 2):
            exchange = draw(rng)
            prompt = Prompt(messages=(user(exchange.question),), max_tokens=900)
            yield Case(skill=skill, prompt=prompt, is_right=_equals(exchange.answer))
    lessons: tuple[tuple[str, Callable[[Random], Lesson]], ...] = (
        ("memory", lambda rng: memory.recall(rng, plain_exchange)),
        ("system prompt: name", instructions.given_name),
        ("system prompt: last word", lambda rng: instructions.always_end(rng, plain_exchange)),
        ("system prompt: one word", instructions.one_word),
        ("system prompt: look up", instructions.secret),
    )
    for skill, draw_lesson in lessons:
        for _ in range(each // 2):
            yield _last_turn(skill, draw_lesson(rng).messages)
    yield from _long(rng, each)


def _last_turn(skill: str, messages: tuple[Message, ...]) -> Case:
    expected = messages[-1]["content"]
    is_right = _ends_like(expected) if skill.endswith("last word") else _equals(expected)
    return Case(
        skill=skill, prompt=Prompt(messages=messages[:-1], max_tokens=900), is_right=is_right
    )


def _ends_like(expected: str) -> Callable[[str], bool]:
    return lambda answer: answer.split()[-1:] == expected.split()[-1:]


def _long(rng: Random, each: int) -> Iterator[Case]:
    """A fixed question behind one to three thousand tokens of history or system prompt."""
    for draw in (long_history, long_system_prompt):
        for _ in range(each // 6):
            question = rng.choice(QUESTIONS)
            messages = (*draw(rng).messages, user(question.text))
            prompt = Prompt(messages=messages, max_tokens=500)
            yield Case(skill="long prompts", prompt=prompt, is_right=question.is_answered_by)
    for _ in range(each // 6):
        name, city = any_name(rng), rng.choice(CITIES)
        messages = (
            user(f"My name is {name}."),
            *long_history(rng).messages[-8:],
            user(f"By the way, I was in {city} with {invented_word(rng)}."),
        )
        messages = (*messages[:-1], user("What is my name?"))
        yield Case(
            skill="memory, far back", prompt=Prompt(messages=messages), is_right=_contains(name)
        )
