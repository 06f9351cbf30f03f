"""Reads questions, our own and those that administrators upload: JSONL, one question a line.

    {"question": "...", "choices": ["...", "..."], "answer": "...", "category": "..."}
    {"question": "...", "answer": ["...", "..."], "exact": true}

`answer` is, with choices, the text of one of them or its letter; without, a text or a list of
texts each of which is right. `choices`, `category` and `exact` may be left out.
extraction.py says what of a model's text is compared, and how.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hosting.actions.benchmarks import Questions
from hosting.benchmarks.extraction import judge, lettered

OWN_FILE = Path(__file__).with_name("questions.jsonl")
OWN_NAME = "Hearth's own"
MOST_BYTES = 8 * 1024 * 1024
MOST_QUESTIONS = 5000
_MOST_CHOICES = 26
_MOST_TOLD = 20
_MOST_LETTERS = {"question": 50_000, "category": 60, "answer": 2000, "choice": 2000}
_FIELDS = ("question", "choices", "answer", "category", "exact")
_NO_CATEGORY = "other"
_NEVER_RIGHT = (
    "no text is right by it, for one line counts, without marks around it. "
    'With "exact": true all of the text counts.'
)


class WrongQuestions(Exception):
    """`errors` name line and field."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


class _Wrong(Exception):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")


def own_questions() -> Questions:
    return read_questions(OWN_FILE.read_bytes(), name=OWN_NAME)


def read_questions(data: bytes, *, name: str) -> Questions:
    """Raises WrongQuestions."""
    if len(data) > MOST_BYTES:
        raise WrongQuestions([f"The file has more than {MOST_BYTES // 1024**2} MB."])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise WrongQuestions([f"Line {line}: this is not UTF-8."]) from None
    items, errors = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            items.append(_question(_object(line)))
        except _Wrong as wrong:
            errors.append(f"Line {number}, {wrong}")
        if len(errors) > _MOST_TOLD or len(items) > MOST_QUESTIONS:
            break
    if len(items) > MOST_QUESTIONS:
        errors = [f"There are more than {MOST_QUESTIONS:,} questions."]
    if errors[_MOST_TOLD:]:
        errors[_MOST_TOLD:] = ["There is more; these come first."]
    if errors or not items:
        raise WrongQuestions(errors or ["The file has no questions."])
    return Questions(name=name, items=items)


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise _Wrong("the whole line", "this is not JSON.") from None
    if not isinstance(value, dict):
        raise _Wrong("the whole line", 'this must be an object, {"question": ...}.')
    return value


def _question(value: dict[str, Any]) -> dict[str, Any]:
    for name in value:
        if name not in _FIELDS:
            raise _Wrong(name[:40], f"there is no such field; there are {', '.join(_FIELDS)}.")
    question: dict[str, Any] = {
        "question": _text(value.get("question"), "question"),
        "category": _text(value.get("category", _NO_CATEGORY), "category"),
    }
    is_exact = value.get("exact", False)
    if not isinstance(is_exact, bool):
        raise _Wrong("exact", "this must be true or false.")
    if "choices" in value:
        if is_exact:
            raise _Wrong("exact", "with choices a letter is asked for.")
        question["choices"] = list(_choices(value["choices"]))
        question["answer"] = [_letter(value.get("answer"), question["choices"])]
    else:
        question["answer"] = list(_answers(value.get("answer")))
        question |= {"exact": True} if is_exact else {}
        alone = ((one, question | {"answer": [one]}) for one in question["answer"])
        if not all(judge(asked, one).is_right for one, asked in alone):
            raise _Wrong("answer", _NEVER_RIGHT)
    return question


def _text(value: Any, field: str, *, kind: str = "") -> str:
    most = _MOST_LETTERS[kind or field]
    if not isinstance(value, str):
        raise _Wrong(field, "this must be a text." if value is not None else "this is missing.")
    if not value.strip():
        raise _Wrong(field, "this is empty.")
    if len(value) > most:
        raise _Wrong(field, f"this has more than {most:,} characters.")
    if "\x00" in value or not _is_encodable(value):
        raise _Wrong(field, "this has a character that is none (NUL, or half of one).")
    return value.strip()


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _choices(value: Any) -> Iterator[str]:
    if not isinstance(value, list) or not 2 <= len(value) <= _MOST_CHOICES:
        raise _Wrong("choices", f"this must be a list of 2 to {_MOST_CHOICES} texts.")
    texts = [_text(one, f"choices[{place}]", kind="choice") for place, one in enumerate(value)]
    if len({one.casefold() for one in texts}) < len(texts):
        raise _Wrong("choices", "two are the same.")
    yield from texts


def _letter(value: Any, choices: list[str]) -> str:
    """The text of a choice counts before a letter: choices may be letters."""
    answer = _text(value, "answer")
    by_text = [letter for letter, choice in lettered(choices) if choice == answer]
    by_letter = [letter for letter, _ in lettered(choices) if letter == answer]
    if not by_text + by_letter:
        last = lettered(choices)[-1][0]
        raise _Wrong("answer", f"this must be one of the choices, or its letter, A to {last}.")
    return (by_text + by_letter)[0]


def _answers(value: Any) -> Iterator[str]:
    many = value if isinstance(value, list) else [value]
    if not many:
        raise _Wrong("answer", "this is empty.")
    for one in many:
        is_number = isinstance(one, (int, float)) and not isinstance(one, bool)
        yield _text(str(one) if is_number else one, "answer")
