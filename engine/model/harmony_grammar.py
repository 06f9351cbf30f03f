"""gpt-oss' answers as a grammar: thoughts in messages of their own, then a call or the answer."""

from __future__ import annotations

from engine.model.harmony import CHANNEL, CONSTRAIN, END, MESSAGE, START
from engine.model.lark import ANYTHING, LarkBuilder
from engine.model.tool_dialects import Dialect

# One ends the answer.
CALLS = Dialect(
    call_start=f"{CHANNEL}commentary to=functions.",
    after_name=f" {CONSTRAIN}json{MESSAGE}",
    call_end="",
)


def messages_rule(
    lark: LarkBuilder, *, calls: str | None, answer: str | None, has_preamble: bool
) -> str:
    """The last message is one of `calls` or the `answer`. `has_preamble`: words may come before."""
    kinds = ["analysis", *(["commentary"] if has_preamble else [])]
    starts = lark.rule(" | ".join(lark.text(CHANNEL + one + MESSAGE) for one in kinds), kind="to")
    earlier = lark.rule(f"{starts} {ANYTHING} {lark.text(f'{END}{START}assistant')}", kind="said")
    last = [f"{lark.text(f'{CHANNEL}final{MESSAGE}')} {answer}"] if answer is not None else []
    last += [calls] if calls is not None else []
    return f"{earlier}* {lark.rule(' | '.join(last), kind='last')}"
