"""Turns with a few short steps of reasoning before the answer."""

from __future__ import annotations

from random import Random

from engine.demo.corpus.arithmetic import numbers_and_sign
from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import vary_one

_TIMES = "\N{MULTIPLICATION SIGN}"
_SIGNS = {"+": "+", "-": "-", "*": _TIMES, "/": "÷"}


def with_steps(rng: Random, exchange: Exchange) -> Exchange:
    """The same exchange, with reasoning that says what is asked and how it will be answered."""
    question = exchange.question.strip().replace("\n", " ")
    short = question if len(question) <= 60 else "something longer"
    first = f'The user asks: "{short}"' if short == question else "The user wrote a longer message."
    plan = vary_one(
        rng,
        (
            "I know the answer and will give it in a few sentences.",
            "I can answer this directly.",
            "I will answer briefly and honestly.",
        ),
    )
    if "small demo model" in exchange.answer and "do not know" in exchange.answer:
        plan = "I do not know enough about this. I will say so honestly."
    return Exchange(
        question=exchange.question, answer=exchange.answer, reasoning=f"{first}\n{plan}"
    )


def sum_in_steps(rng: Random) -> Exchange:
    left, sign, right, result = numbers_and_sign(rng)
    said = f"{left} {_SIGNS[sign]} {right}"
    question = vary_one(
        rng,
        (
            "What is $s?",
            "How much is $s?",
            "Calculate $s.",
            "Think: what is $s?",
            "Think step by step: $s",
            "$s",
        ),
        s=said,
    )
    steps = _steps(left, sign, right, result)
    reasoning = "\n".join((f"I need to work out {said}.", *steps, f"So the result is {result}."))
    return Exchange(question=question, answer=f"{said} = {result}.", reasoning=reasoning)


def _steps(left: int, sign: str, right: int, result: int) -> list[str]:
    tens, ones = right // 10 * 10, right % 10
    if sign == "+" and tens and ones:
        return [
            f"First the tens: {left} + {tens} = {left + tens}.",
            f"Then the ones: {left + tens} + {ones} = {result}.",
        ]
    if sign == "-" and tens and ones and left >= right:
        return [
            f"First the tens: {left} - {tens} = {left - tens}.",
            f"Then the ones: {left - tens} - {ones} = {result}.",
        ]
    if sign == "*" and tens and ones:
        return [
            f"First the tens: {left} {_TIMES} {tens} = {left * tens}.",
            f"Then the ones: {left} {_TIMES} {ones} = {left * ones}.",
            f"Together: {left * tens} + {left * ones} = {result}.",
        ]
    return [f"{left} {_SIGNS[sign]} {right} = {result}."]
