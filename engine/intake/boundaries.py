"""Where other prompts will leave this one: the end of its system prompt and of its last turns.

Found by rendering less of the conversation: both texts agree up to a token of the template's own,
such as the one that begins a turn. Positions are hints for the prefix cache; a wrong one costs a
copy, never an answer. It does not know who asks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import compress, count

from engine.intake.encode import Conversation
from engine.intake.limits import TooSlow
from engine.intake.messages import Message
from engine.intake.template import Template, TemplateRefused

MAX_TURNS = 3
MAX_RENDER_SECONDS = 0.02  # a template that takes longer is not rendered again
_PROBE: Message = {"role": "user", "content": "0"}


def publishable(said: Conversation) -> Conversation:
    """Its system prompt and tools alone, with a question that no boundary includes."""
    question: Message = {"role": "user", "content": "1"}
    return Conversation(
        messages=[*_system(said.messages), question],
        tools=said.tools,
        options=said.options,
        marker=said.marker,
    )


def turn_starts(
    rendered: str, said: Conversation, template: Template, *, write: Callable[[str], str]
) -> list[int]:
    """Offsets in `rendered` at which a shorter conversation departs from it, the first one at the
    end of the system prompt. Ascending. `write`: what was made of the template's text."""
    started = time.monotonic()
    offsets = set()
    for shorter in _shorter(said.messages):
        if time.monotonic() - started > MAX_RENDER_SECONDS:
            break
        try:
            other = template.render(
                shorter, said.tools, said.options, adds_generation_prompt=shorter[-1] is _PROBE
            )
        except (TemplateRefused, TooSlow, MemoryError):
            continue
        offsets.add(_common_length(rendered, write(other)))
    return sorted(offsets)


def token_positions(
    offsets: Sequence[int],
    rendered: str,
    token_ids: Sequence[int],
    controls: dict[str, int],
) -> tuple[int, ...]:
    """The last of the template's control tokens at or before each offset, as token positions.

    `controls` are the control tokens by their spelling; each occurrence in the text is one token.
    """
    if not offsets or not controls:
        return ()
    pattern = re.compile("|".join(map(re.escape, sorted(controls, key=len, reverse=True))))
    starts = [match.start() for match in pattern.finditer(rendered)]
    ids = frozenset(controls.values())
    positions = list(compress(count(), map(ids.__contains__, token_ids)))
    if len(starts) != len(positions):
        return ()
    found = set()
    for offset in offsets:
        before = [at for start, at in zip(starts, positions, strict=True) if start <= offset]
        found.update(before[-1:])
    return tuple(sorted(found - {0}))


def _common_length(left: str, right: str) -> int:
    low, high = 0, min(len(left), len(right)) + 1  # [:low] is equal, [:high] is not
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle] and middle <= min(len(left), len(right)):
            low = middle
        else:
            high = middle
    return low


def _shorter(messages: list[Message]) -> Iterator[list[Message]]:
    """What comes before the first question, then the conversation without its last questions."""
    yield [*_system(messages), _PROBE]
    yield messages
    questions = [at for at, one in enumerate(messages) if one["role"] == "user"]
    for at in questions[::-1][: MAX_TURNS - 1]:
        if at > len(_system(messages)):
            yield messages[:at]


def _system(messages: list[Message]) -> list[Message]:
    """The system messages that it begins with."""
    for number, message in enumerate(messages):
        if message["role"] != "system":
            return messages[:number]
    return messages
