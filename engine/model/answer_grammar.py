"""What one answer must look like, from its first token: thinking, then the answer or tool calls."""

from __future__ import annotations

from typing import Any

from engine import wire
from engine.core.grammar_text import GrammarInvalid, grammar_part
from engine.model.call_grammar import calls_rule
from engine.model.lark import LarkBuilder
from engine.model.tool_dialects import dialect_of
from engine.model.tool_parsers import parser_name

_SPACE = r"/[ \t\r\n]{0,8}/"


class GrammarRejected(Exception):
    """This model cannot be held to this grammar."""


def answer_grammar(work: wire.Work, tokenizer: Any) -> str:
    """In llguidance's form. Raises GrammarRejected."""
    must_call = work.tool_choice.is_required
    if tokenizer.response_transitions:
        raise GrammarRejected("its answers have a form that grammars cannot be fitted into")
    lark = LarkBuilder(_control_tokens(tokenizer))
    forms = []
    if work.tools:
        forms.append(_calls(lark, work, tokenizer))
    if work.grammar is not None and not must_call:
        try:
            forms.append(lark.part(grammar_part(work.grammar, name="answer")))
        except GrammarInvalid as error:
            raise GrammarRejected(str(error)) from error
    body = lark.rule(" | ".join(forms), kind="body")
    return lark.finish(_with_thinking(lark, body, work, tokenizer))


def _calls(lark: LarkBuilder, work: wire.Work, tokenizer: Any) -> str:
    name = work.tool_choice.name
    tools = [tool for tool in work.tools if name in (None, tool["function"]["name"])]
    known = frozenset(tokenizer.get_vocab())
    dialect = dialect_of(parser_name(tokenizer), has_token=known)
    return calls_rule(lark, dialect, tools, is_parallel=work.tool_choice.is_parallel)


def _with_thinking(lark: LarkBuilder, body: str, work: wire.Work, tokenizer: Any) -> str:
    if not tokenizer.has_thinking or work.has_thought:
        return body
    thought = f"{lark.until(tokenizer.think_end)} {_SPACE}"
    if work.starts_in_reasoning:
        return f"{thought} {body}"
    start = lark.text(tokenizer.think_start)
    may_think = lark.rule(f'"" | {start} {thought}', kind="thought")
    return f"{may_think} {body}"


def _control_tokens(tokenizer: Any) -> dict[str, int]:
    """Spellings that llguidance reads as tokens, never as text."""
    try:
        added = tokenizer.backend_tokenizer.get_added_tokens_decoder()
    except AttributeError as error:
        raise GrammarRejected("its tokenizer is of an unknown kind") from error
    return {
        token.content: token_id
        for token_id, token in added.items()
        if token.special or _looks_special(token.content)
    }


def _looks_special(spelling: str) -> bool:
    return len(spelling) > 1 and spelling.startswith("<") and spelling.endswith(">")
