"""Sums, products, comparisons and counting with small numbers."""

from __future__ import annotations

from random import Random

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import ask, vary, vary_one

_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
_SUM_FRAMES = (
    "What is $sum?",
    "What's $sum?",
    "$sum",
    "$sum = ?",
    "$sum =",
    "Calculate $sum.",
    "Compute $sum.",
    "How much is $sum?",
    "Please {calculate|compute|solve} $sum.",
    "{Solve|Work out} $sum.",
    "Can you {calculate|compute|tell me|work out} $sum?",
    "Tell me $sum.",
    "What does $sum {equal|make|give}?",
    "What do you get for $sum?",
    "I need the {result|answer} of $sum.",
    "$sum equals what?",
    "What is the result of $sum?",
    "Give me the {answer|result} of $sum.",
    "I have to {calculate|work out} $sum.",
    "$sum is what?",
    "The {task|exercise|question} is $sum.",
    "Let us calculate $sum.",
    "And $sum?",
    "Now $sum",
    "Do the sum: $sum",
    "{Can|Could} you do $sum?",
    "What number is $sum?",
    "I think $sum is hard.",
    "Please tell me {what $sum is|what is $sum}.",
    "{My teacher|My son|My friend} asks: $sum",
    "How many are $sum?",
)
_TIMES = "\N{MULTIPLICATION SIGN}"
_SIGNS = {
    "+": ("+", "+", "+", " + ", " + ", " + ", " plus "),
    "-": ("-", " - ", " - ", " - ", " minus ", " \N{MINUS SIGN} "),
    "*": ("*", " * ", " * ", " x ", f" {_TIMES} ", " times ", " multiplied by "),
    "/": (" / ", "/", " ÷ ", " divided by "),
}
_ANSWER_SIGNS = {"+": "+", "-": "-", "*": _TIMES, "/": "÷"}


def _number(rng: Random) -> int:
    chance = rng.random()
    if chance < 0.25:
        return rng.randint(0, 12)
    if chance < 0.85:
        return rng.randint(0, 99)
    return rng.randint(100, 999)


def numbers_and_sign(rng: Random) -> tuple[int, str, int, int]:
    """Two numbers, a sign and the result, all within what the model can learn."""
    sign = rng.choice("+++--***/")
    if sign == "+":
        left, right = _number(rng), _number(rng)
        return left, sign, right, left + right
    if sign == "-":
        left, right = _number(rng), _number(rng)
        if left < right and rng.random() < 0.75:
            left, right = right, left
        return left, sign, right, left - right
    left, right = rng.randint(0, 12), rng.randint(0, 12)
    if rng.random() < 0.3:
        left, right = rng.randint(0, 20), rng.randint(0, 20)
    if sign == "*":
        return left, sign, right, left * right
    right = max(1, right)
    return left * right, sign, right, left


def _spell(rng: Random, number: int) -> str:
    if number <= 20 and rng.random() < 0.12:
        return _WORDS[number]
    return str(number)


def sums(rng: Random) -> Exchange:
    left, sign, right, result = numbers_and_sign(rng)
    said = _spell(rng, left) + rng.choice(_SIGNS[sign]) + _spell(rng, right)
    question = _say_sum(rng, said, left, sign, right)
    answer = f"{left} {_ANSWER_SIGNS[sign]} {right} = {result}."
    return Exchange(question=ask(rng, question), answer=answer)


def _say_sum(rng: Random, said: str, left: int, sign: str, right: int) -> str:
    if rng.random() < 0.85:
        return vary_one(rng, _SUM_FRAMES, sum=said)
    frames = {
        "+": ("Add $a and $b.", "What is the sum of $a and $b?", "Add $b to $a."),
        "-": (
            "Subtract $b from $a.",
            "Take $b away from $a.",
            "What is the difference between $a and $b?",
        ),
        "*": ("Multiply $a by $b.", "What is the product of $a and $b?", "Multiply $a and $b."),
        "/": ("Divide $a by $b.",),
    }
    return vary_one(rng, frames[sign], a=str(left), b=str(right))


def word_problem(rng: Random) -> Exchange:
    first, second = rng.randint(2, 30), rng.randint(1, 20)
    thing = rng.choice(
        ("apples", "books", "coins", "eggs", "cards", "pens", "cookies", "stones", "candles")
    )
    name = rng.choice(("Anna", "Ben", "Mia", "Tom", "Sara", "Leo", "Nina", "Max"))
    if rng.random() < 0.5:
        story = "$n has $a $t and {gets|buys|finds} $b more. How many $t does $n have{| now}?"
        result, sign = first + second, "+"
    else:
        first = first + second
        story = "$n has $a $t and {loses|sells|eats} $b. How many $t {are left|does $n have now}?"
        result, sign = first - second, "-"
    question = vary(rng, story, n=name, a=str(first), b=str(second), t=thing)
    answer = f"{first} {sign} {second} = {result}, so {name} has {result} {thing}."
    return Exchange(question=question, answer=answer)


def comparison(rng: Random) -> Exchange:
    left, right = rng.sample(range(rng.choice((20, 100, 1000))), 2)
    bigger = rng.random() < 0.5
    word = rng.choice(("larger", "bigger", "greater")) if bigger else "smaller"
    frames = (
        "Which {number |}is $w, $a or $b?",
        "What is $w: $a or $b?",
        "Which is the $w number: $a or $b?",
        "Is $a $w than $b?",
        "Which of $a and $b is $w?",
    )
    frame = rng.choice(frames)
    question = ask(rng, vary(rng, frame, w=word, a=str(left), b=str(right)))
    if frame.startswith("Is "):
        is_true = (left > right) == bigger
        other = "larger" if left > right else "smaller"
        answer = (
            f"{'Yes' if is_true else 'No'}, {left} is {word if is_true else other} than {right}."
        )
    else:
        chosen = max(left, right) if bigger else min(left, right)
        rest = left + right - chosen
        answer = f"{chosen} is {word} than {rest}."
    return Exchange(question=question, answer=answer)


def parity(rng: Random) -> Exchange:
    number = rng.randint(0, 200)
    kind = "even" if number % 2 == 0 else "odd"
    frames = (
        "Is $n even or odd?",
        "Is $n {even|odd}?",
        "Is the number $n {an even|an odd} number?",
        "$n: even or odd?",
    )
    question = ask(rng, vary_one(rng, frames, n=str(number)))
    return Exchange(question=question, answer=f"{number} is {kind}.")


def counting(rng: Random) -> Exchange:
    """Counting up, down or in steps: the long ones are long answers for tests of streaming."""
    if rng.random() < 0.25:
        start = rng.randint(3, 30)
        frames: tuple[str, ...] = (
            "Count {down|backwards} from $a{| to 0| to zero}.",
            "{Please count|Can you count} down from $a?",
        )
        question = ask(rng, vary_one(rng, frames, a=str(start)))
        return Exchange(question=question, answer=_listed(list(range(start, -1, -1))))
    end = rng.choice((5, 10, 12, 15, 20, 20, 25, 30, 40, 50, 60, 75, 100, 100, 100, 120, 150, 200))
    if rng.random() < 0.3:
        end = rng.randint(3, 60)
    start = 1 if rng.random() < 0.8 else rng.randint(0, max(0, end - 3))
    if start == 1 and rng.random() < 0.6:
        frames = (
            "Count to $b.",
            "Please count to $b.",
            "Can you count to $b?",
            "Count up to $b.",
            "List the numbers up to $b.",
            "Count slowly to $b.",
        )
    else:
        frames = (
            "Count from $a to $b.",
            "List the numbers from $a to $b.",
            "Write {all |}the numbers from $a to $b.",
            "Say the numbers from $a to $b.",
        )
    question = ask(rng, vary_one(rng, frames, a=str(start), b=str(end)))
    return Exchange(question=question, answer=_listed(list(range(start, end + 1))))


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) + "."
