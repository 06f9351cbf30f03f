"""How a question is asked, and what of the text that comes counts as the answer. Pure.

What counts is the first line that says something, without markdown around it and without a leading
"Answer:" or "The answer is". A line that has nothing else, or begins a block of code, says nothing:

- with choices: a letter alone, in brackets or with . ) : behind it, more text may follow then; or
  the whole text of one choice. "B", "(B)", "B) Paris", "Paris" are answers; "A town in France" is
  none.
- without: all of the line. Case, quotation marks, a full stop at the end, a leading article, and
  commas between thousands make no difference; numbers of the same value are the same.
- `exact`: all of the text, letter by letter, but for space around it.
"""

from __future__ import annotations

import dataclasses
import re
import string
from decimal import Decimal, InvalidOperation
from typing import Any

_MARKS = "*_`\"'\u201c\u201d\u2018\u2019 \t"
_LEAD = re.compile(r"^(?:the )?(?:final )?answer[*_]*(?: is:?|:)\s*", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```[\w+-]*\s*$")
_LETTER_ALONE = re.compile(r"^\(?([A-Za-z])\)?[.:)]?$")
_LETTER_FIRST = re.compile(r"^(?:\(([A-Z])\)|([A-Z])[.:)])[*_]*\s")
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_MOST_DIGITS = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`found` is "" where there was no answer in the form that was asked for."""

    found: str
    is_right: bool


def prompt_of(question: dict[str, Any]) -> str:
    text = question["question"]
    if question.get("exact"):
        return str(text)
    if choices := question.get("choices"):
        lines = [f"{letter}) {choice}" for letter, choice in lettered(choices)]
        rule = "Answer with the letter of the right choice and nothing else."
        return "\n".join([text, "", *lines, "", rule])
    return f"{text}\n\nGive the answer alone, in as few words as possible, and nothing else."


def judge(question: dict[str, Any], text: str) -> Verdict:
    """`text`: what the model wrote, without its thinking."""
    answers = question["answer"]
    if question.get("exact"):
        found = text.strip()
        return Verdict(found=found, is_right=found in answers)
    line = _first_line(text)
    if choices := question.get("choices"):
        letter = _letter_in(line, choices)
        return Verdict(found=letter, is_right=letter in answers)
    return Verdict(found=line, is_right=any(_is_same(line, one) for one in answers))


def lettered(choices: list[str]) -> list[tuple[str, str]]:
    return list(zip(string.ascii_uppercase, choices, strict=False))


def _first_line(text: str) -> str:
    lines = (line.strip(_MARKS) for line in text.splitlines() if not _FENCE.match(line))
    said = (_LEAD.sub("", line).strip(_MARKS) for line in lines)
    return next((line for line in said if line), "")


def _letter_in(line: str, choices: list[str]) -> str:
    """ "" for none, or one beyond the choices."""
    letters = [letter for letter, _ in lettered(choices)]
    if found := _LETTER_ALONE.match(line) or _LETTER_FIRST.match(line):
        letter = next(one for one in found.groups() if one).upper()
        return letter if letter in letters else ""
    same = [letter for letter, choice in lettered(choices) if _is_same(line, choice)]
    return same[0] if len(same) == 1 else ""


def _is_same(found: str, wanted: str) -> bool:
    found, wanted = _plain(found), _plain(wanted)
    if found == wanted:
        return bool(found)
    numbers = _number(found), _number(wanted)
    return None not in numbers and numbers[0] == numbers[1]


def _plain(text: str) -> str:
    text = text.strip(_MARKS).rstrip(".").strip(_MARKS)
    text = _THOUSANDS.sub("", " ".join(text.split()))
    return _ARTICLE.sub("", text).casefold()


def _number(text: str) -> Decimal | None:
    if len(text) > _MOST_DIGITS:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
