"""An answer that the client has begun: the prompt ends where the last message's text ends.

The template itself says how an assistant's message looks: it is rendered with a mark at the end of
its text, and cut there.
"""

from __future__ import annotations

import dataclasses

from engine import wire
from engine.intake.encode import Conversation
from engine.intake.refusal import invalid

_MARK = "\ufdd0"  # no character, and never white space that a template might strip


def check_begun(generate: wire.Generate) -> None:
    """Raises Refusal where the last message cannot be continued."""
    if not generate.continues_last:
        return
    messages = generate.messages or ()
    last = messages[-1] if messages else {}
    where = f"messages[{max(0, len(messages) - 1)}]"
    if last.get("role") != "assistant" or last.get("tool_calls"):
        raise invalid(where, "Only an assistant's message without tool calls can be continued.")
    if generate.grammar is not None or generate.tool_choice.is_required:
        detail = "An answer that is already begun cannot be held to a grammar or to a tool call."
        raise invalid(where, detail)


def marked(said: Conversation) -> Conversation:
    """With the mark where the answer goes on."""
    *earlier, last = said.messages
    begun = {**last, "content": last["content"] + _MARK}
    return dataclasses.replace(said, messages=[*earlier, begun])


def cut(rendered: str) -> str:
    """Raises Refusal for a template that does not show the last message."""
    before, mark, _ = rendered.rpartition(_MARK)
    if not mark:
        raise invalid("messages", "This model's chat template cannot continue a message.")
    return before
