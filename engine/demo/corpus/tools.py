"""Lessons with tools: a call when one fits, none when none fits, an answer after the result."""

from __future__ import annotations

from random import Random

from engine.demo.corpus.lesson import Lesson, Message, assistant, system, user
from engine.demo.corpus.tool_uses import USES, JsonObject, Use, anything, clock, search, weather
from engine.demo.corpus.wording import lines, vary_one

_OPENINGS = lines("""
    You are a helpful assistant.
    You are {an|a friendly} assistant with tools.
    Use the tools when they help.
    You are Hearth, a helpful model.
    Answer briefly.
    {You can use tools|You have tools}. {Be brief.|Be helpful.}
""")
_REASONS = lines("""
    The tool $t fits this question. I will call it.
    I can use $t for this.
    The user asks for something that $t can do, so I call it.
""")
_POLITE = ("Hi, ", "Hello! ", "Please: ", "Hey, ", "Ok, ", "Now: ", "Good morning. ", "Thanks! ")
_TAILS = ("", "", " Thanks!", " please", " for me", " now")


def tools_around(rng: Random, *uses: Use) -> tuple[JsonObject, ...]:
    """The tools needed, among others with other names, in any order."""
    tools = {use.name: use.tool for use in uses}
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 4))):
        other = anything(rng)
        tools.setdefault(other.name, other.tool)
    chosen = list(tools.values())
    rng.shuffle(chosen)
    return tuple(chosen)


def calling(rng: Random) -> Lesson:
    """Ask, call, result, answer; sometimes two calls at once; sometimes with reasoning."""
    use = rng.choice(USES)(rng)
    question = _say(rng, use.question)
    uses = [use]
    other = rng.choice((weather, clock, search))(rng)
    if rng.random() < 0.1 and other.name != use.name:
        uses.append(other)
        second = other.question[:1].lower() + other.question[1:]
        question = f"{use.question.rstrip('?.!')} and {second}"
    calls = [_call(use, number) for number, use in enumerate(uses)]
    turn: Message = {"role": "assistant", "content": "", "tool_calls": calls}
    messages = [*_opening(rng), user(question), turn]
    tools = tools_around(rng, *uses)
    if rng.random() < 0.2:
        turn["reasoning_content"] = " ".join(vary_one(rng, _REASONS, t=use.name) for use in uses)
        return Lesson(messages=tuple(messages), tools=tools)
    for number, use in enumerate(uses):
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": use.result})
    messages.append(assistant(" ".join(use.answer for use in uses)))
    return Lesson(messages=tuple(messages), tools=tools)


def unhelpful(rng: Random, question: str, answer: str) -> Lesson:
    """Tools are there, but none fits: answer plainly."""
    tools = tuple(rng.choice(USES)(rng).tool for _ in range(rng.randint(1, 3)))
    return Lesson(messages=(*_opening(rng), user(question), assistant(answer)), tools=tools)


def _say(rng: Random, question: str) -> str:
    """Politeness and punctuation only: the values inside are copied as they stand."""
    chance = rng.random()
    if chance < 0.15:
        question = rng.choice(_POLITE) + question
    elif chance < 0.25:
        question = question.rstrip("?.") + rng.choice(_TAILS)
    if rng.random() < 0.2:
        question = question.rstrip("?.")
    return question


def _call(use: Use, number: int) -> JsonObject:
    function = {"name": use.name, "arguments": use.arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _opening(rng: Random) -> list[Message]:
    return [system(vary_one(rng, _OPENINGS))] if rng.random() < 0.45 else []
