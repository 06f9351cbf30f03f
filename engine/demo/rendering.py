"""Lessons to text to tokens, each token marked as read or learned. It knows no MLX.

The text comes from the same chat template that the service renders, so the model is trained on
exactly the prompts that it will meet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy
from tokenizers import Tokenizer

from engine.demo.corpus.lesson import Lesson

TEMPLATE_PATH = Path(__file__).with_name("chat_template.jinja")
# The opening of an assistant turn, and of its reasoning, is written by the template, not the model.
_ANSWER = re.compile(
    r"(?<=<\|im_start\|>assistant\n)((?:<think>\n)?)(.*?<\|im_end\|>)(?=\n)", re.DOTALL
)

Encoded = tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]


@cache
def template() -> jinja2.Template:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE_PATH.read_text())


def render(lesson: Lesson) -> str:
    tools = list(lesson.tools) or None
    return template().render(messages=list(lesson.messages), tools=tools)


def split(text: str) -> list[tuple[str, bool]]:
    """Cut rendered text into (piece, is_learned)."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for match in _ANSWER.finditer(text):
        pieces += [(text[at : match.start(2)], False), (match.group(2), True)]
        at = match.end()
    return pieces


def encode_lessons(tokenizer: Tokenizer, lessons: Sequence[Lesson], limit: int) -> list[Encoded]:
    """Token ids and learned-masks; a lesson longer than `limit` tokens is left out."""
    cut = [split(render(lesson)) for lesson in lessons]
    flat = [piece for pieces in cut for piece, _ in pieces]
    encoded = iter(tokenizer.encode_batch_fast(flat, add_special_tokens=False))
    results: list[Encoded] = []
    for pieces in cut:
        ids: list[int] = []
        learned: list[bool] = []
        for _, is_learned in pieces:
            part = next(encoded).ids
            ids += part
            learned += [is_learned] * len(part)
        if len(ids) <= limit:
            results.append((numpy.array(ids, numpy.uint16), numpy.array(learned, numpy.bool_)))
    return results
