"""What a title is asked for with, and what is made of the model's answer."""

from __future__ import annotations

import re
from typing import Any

SYSTEM_PROMPT = (
    "You write titles. Answer with a title of at most six words for the conversation, "
    "and nothing else."
)
MAX_TOKENS = 16
_EXCERPT_CHARACTERS = 500
_MAX_CHARACTERS = 80
_QUOTES = "\"'`*#“”\u2018\u2019«» \t"


def title_prompt(*, question: str, answer: str) -> tuple[dict[str, Any], ...]:
    asked = question[:_EXCERPT_CHARACTERS]
    answered = answer[:_EXCERPT_CHARACTERS]
    return (
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": f"User: {asked}\nAssistant: {answered}"},
    )


def clean_title(text: str) -> str:
    """The first line without quotes and markup; "" when nothing is left."""
    lines = [line for line in text.splitlines() if line.strip()]
    first = re.sub(r"^title:\s*", "", lines[0].strip(_QUOTES), flags=re.IGNORECASE) if lines else ""
    return first.strip(_QUOTES).rstrip(".")[:_MAX_CHARACTERS]
