"""Questions of benchmarks: ours have the answers they say, others' are read or named by line; what
counts as an answer; and how sure one may be of a share."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from hosting.benchmarks.extraction import judge, prompt_of
from hosting.benchmarks.intervals import Interval, chance_of_difference, percentile, wilson
from hosting.benchmarks.questions import (
    MOST_BYTES,
    WrongQuestions,
    own_questions,
    read_questions,
)

CHOICES = ["Rome", "A town", "Paris"]


def found(text: str, **question: Any) -> str:
    return judge({"question": "?", "answer": ["x"], **question}, text).found


def is_right(text: str, *answers: str, **question: Any) -> bool:
    return judge({"question": "?", "answer": list(answers), **question}, text).is_right


def errors_of(*lines: str) -> list[str]:
    with pytest.raises(WrongQuestions) as caught:
        read_questions("\n".join(lines).encode(), name="mine")
    return list(caught.value.errors)


def test_ours_are_a_hundred_in_five_categories_and_none_comes_twice() -> None:
    items = own_questions().items
    categories = [item["category"] for item in items]
    assert {name: categories.count(name) for name in set(categories)} == dict.fromkeys(
        ("arithmetic", "language", "knowledge", "code", "instructions"), 20
    )
    assert len({item["question"] for item in items}) == 100
    letters = [item["answer"][0] for item in items if "choices" in item]
    assert all(3 <= letters.count(letter) <= 6 for letter in "ABCD")


def test_the_right_answer_to_each_of_ours_counts_and_no_other() -> None:
    for item in own_questions().items:
        for answer in item["answer"]:
            assert judge(item, f" {answer}\n").is_right, item
        assert not judge(item, "").is_right and not judge(item, "I do not know.").is_right
        assert item["question"] in prompt_of(item)


def test_our_programs_print_what_we_say() -> None:
    for item in own_questions().items:
        if item["category"] == "code":
            code = item["question"].split("```python\n")[1].split("```")[0]
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, {})
            assert item["answer"] == [printed.getvalue().strip()]


def test_our_sums_are_right() -> None:
    sums = 0
    for item in own_questions().items:
        said = item["question"].removeprefix("What is ").removesuffix("?")
        if "choices" not in item and not set(said) - set("0123456789 .+-*/()"):
            assert eval(said) == float(item["answer"][0])
            sums += 1
    assert sums == 8


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        *[(form, "C") for form in ("C", "c", "(C)", "C.", "C)", "**C**", " \n C\n\nso", "Paris")],
        *[(form, "C") for form in ("C) Paris", "**C)** Paris", "Answer: C", "The answer is C.")],
        *[(form, "C") for form in ("paris.", "The answer is: Paris", "C: it is on the Seine")],
        *[(form, "C") for form in ("Answer:\n\nC", "**Answer**: C", "```\nC\n```")],
        ("A town", "B"),
        *[(form, "") for form in ("D", "A village", "A or C", "I think C", "Paris or Rome", "")],
        *[(form, "") for form in ("Either.", "C B", "Certainly!")],
    ],
)  # fmt: skip
def test_of_choices_a_letter_or_a_whole_choice_counts(text: str, letter: str) -> None:
    assert found(text, choices=CHOICES) == letter


@pytest.mark.parametrize(
    ("text", "answer", "is_same"),
    [
        *[(form, "Paris", True) for form in ("paris", " Paris.", "**Paris**", '"Paris"')],
        *[("The answer is " + form, "Paris", True) for form in ("Paris", "the Paris")],
        *[(form, "1024", True) for form in ("1,024", "1024.0", "Answer: 1024", "1024\nYes")],
        *[(form, "1024", False) for form in ("2 ** 10 = 1024", "1 024", "102", "1e9999999999")],
        *[(form, "1024", True) for form in ("```\n1024\n```", "```python\n1024\n```")],
        *[(form, "1024", False) for form in ("```python```\n1024", "Answer:", "```text\n```")],
        *[("heart", one, True) for one in ("the heart", "Heart")],
        *[(form, "Paris", False) for form in ("It is Paris", "Paris, France", "")],
        *[("infinity", "1", False), ("nan", "nan", True), ("9" * 200, "9", False)],
    ],
)
def test_of_short_answers_the_whole_line_counts(text: str, answer: str, is_same: bool) -> None:
    assert is_right(text, answer) == is_same


def test_what_must_be_exact_differs_by_one_letter() -> None:
    assert is_right(" OK\n", "OK", exact=True)
    assert not is_right("ok", "OK", exact=True) and not is_right("OK.", "OK", exact=True)
    assert prompt_of({"question": "Say OK.", "exact": True, "answer": ["OK"]}) == "Say OK."


def test_a_file_is_read_with_what_it_leaves_out() -> None:
    lines = [
        {"question": "2 + 2?", "answer": 4},
        {"question": "Which?", "choices": ["B", "A"], "answer": "A", "category": "letters"},
        {"question": "Which?", "choices": ["x", "y"], "answer": "B"},
        {"question": "Say OK", "answer": ["OK", "OK!", "*\n*"], "exact": True},
    ]
    text = "\ufeff" + "\r\n".join(map(json.dumps, lines)) + "\n\n"
    items = read_questions(text.encode(), name="mine").items
    assert [item["answer"] for item in items] == [["4"], ["B"], ["B"], ["OK", "OK!", "*\n*"]]
    assert [item["category"] for item in items] == ["other", "letters", "other", "other"]
    assert items[3]["exact"] is True


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("no json", "the whole line: this is not JSON."),
        ("[1]", "the whole line: this must be an object"),
        ("[" * 100_000, "the whole line: this is not JSON."),
        ('{"question": "a"}', "answer: this is missing."),
        ('{"question": "", "answer": "b"}', "question: this is empty."),
        ('{"question": 3, "answer": "b"}', "question: this must be a text."),
        ('{"question": "a", "answer": []}', "answer: this is empty."),
        ('{"question": "a", "answer": {}}', "answer: this must be a text."),
        ('{"question": "a", "answer": true}', "answer: this must be a text."),
        ('{"question": "a", "answer": "\\u0000"}', "answer: this has a character that is none"),
        ('{"question": "\\ud800", "answer": "b"}', "question: this has a character that is none"),
        ('{"question": "a", "anser": "b"}', "anser: there is no such field; there are question,"),
        ('{"question": "a", "answer": "b", "exact": 1}', "exact: this must be true or false."),
        *[
            (f'{{"question": "a", "answer": {answer}}}', "answer: no text is right by it")
            for answer in ('"b\\nc"', '"*"', '["b", "..."]', '"Answer: b"')
        ],
        ('{"question": "a", "choices": ["b"], "answer": "b"}', "choices: this must be a list of"),
        ('{"question": "a", "choices": null, "answer": "b"}', "choices: this must be a list of"),
        ('{"question": "a", "choices": ["b", 1], "answer": "b"}', "choices[1]: this must be"),
        ('{"question": "a", "choices": ["b", "B"], "answer": "b"}', "choices: two are the same."),
        ('{"question": "a", "choices": ["b", "c"], "answer": "d"}', "A to B."),
        ('{"question": "a", "choices": ["b", "c"], "answer": "b", "exact": true}', "exact: with"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_line_and_field(line: str, told: str) -> None:
    (error,) = errors_of('{"question": "a", "answer": "b"}', "", line)
    assert error.startswith("Line 3, ") and told in error


def test_files_that_are_none_are_refused() -> None:
    assert errors_of("") == ["The file has no questions."]
    with pytest.raises(WrongQuestions, match="Line 2: this is not UTF-8"):
        read_questions(b'{"question": "a", "answer": "b"}\n\xff', name="mine")
    with pytest.raises(WrongQuestions, match="more than 8 MB"):
        read_questions(b" " * (MOST_BYTES + 1), name="mine")
    many = errors_of(*["x"] * 50)
    assert len(many) == 21 and many[-1] == "There is more; these come first."
    assert errors_of(*['{"question": "a", "answer": "b"}'] * 5001) == [
        "There are more than 5,000 questions."
    ]


@pytest.mark.parametrize(
    ("right", "asked", "low", "high"),
    [  # Newcombe, 1998, and R's prop.test(correct=FALSE)
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
        (50, 100, 0.4038, 0.5962),
    ],
)
def test_wilson_intervals_are_the_known_ones(
    right: int, asked: int, low: float, high: float
) -> None:
    assert wilson(right, asked) == pytest.approx(Interval(low, high), abs=6e-5)


def test_of_nothing_nothing_is_known() -> None:
    assert wilson(0, 0) == Interval(0.0, 1.0)
    assert chance_of_difference(0, 0) == 1.0


def test_the_chance_of_a_difference_is_the_known_one() -> None:
    """R's binom.test(2, 12) and (5, 5); as many on both sides say nothing."""
    assert chance_of_difference(2, 10) == pytest.approx(0.03857, abs=1e-5)
    assert chance_of_difference(5, 0) == pytest.approx(0.0625)
    assert chance_of_difference(3, 3) == 1.0
    assert 0 < chance_of_difference(1000, 1500) < 1e-20


def test_percentiles_are_values_that_were_measured() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert (percentile(values, 50), percentile(values, 95)) == (3.0, 5.0)
    assert percentile([7.0], 95) == 7.0
