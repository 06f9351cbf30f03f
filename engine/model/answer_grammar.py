"""What one answer must look like, from its first token: thinking, then the answer or tool calls.

Where tools are strict but need not be called, text is free and what begins as a call is held.
"""

from __future__ import annotations

from typing import Any

from engine import wire
from engine.core.grammar_text import GrammarInvalid, grammar_part, is_strict
from engine.model.call_grammar import MAX_CALLS, calls_rule
from engine.model.lark import ANYTHING, LarkBuilder
from engine.model.tool_dialects import dialect_of
from engine.model.tool_parsers import parser_name

_SPACE = r"/[ \t\r\n]{0,8}/"


class GrammarRejected(Exception):
    """This model cannot be held to this grammar."""


def answer_grammar(work: wire.Work, tokenizer: Any) -> str:
    """In llguidance's form. Raises GrammarRejected."""
    if tokenizer.response_transitions:
        raise GrammarRejected("its answers have a form that grammars cannot be fitted into")
    lark = LarkBuilder(_control_tokens(tokenizer))
    return lark.finish(_with_thinking(lark, _body(lark, work, tokenizer), work, tokenizer))


def marks_calls(tokenizer: Any) -> bool:
    """Its calls begin with a token of their own, so that no text can be taken for one."""
    if tokenizer.response_transitions:
        return False
    try:
        control = _control_tokens(tokenizer)
    except GrammarRejected:
        return False
    dialect = dialect_of(parser_name(tokenizer))
    return (dialect.section_start or dialect.call_start).startswith(tuple(control))


def _body(lark: LarkBuilder, work: wire.Work, tokenizer: Any) -> str:
    must_call = work.tool_choice.is_required
    if work.grammar is None and not must_call:
        return _text_and_calls(lark, work, tokenizer)
    forms = [_calls(lark, work, tokenizer)] if work.tools else []
    if work.grammar is not None and not must_call:
        try:
            forms.append(lark.part(grammar_part(work.grammar, name="answer")))
        except GrammarInvalid as error:
            raise GrammarRejected(str(error)) from error
    return lark.rule(" | ".join(forms), kind="body")


def _text_and_calls(lark: LarkBuilder, work: wire.Work, tokenizer: Any) -> str:
    """Calls of tools that are not strict are only held to some object."""
    tools = tuple(tool if is_strict(tool) else _loosened(tool) for tool in work.tools)
    calls = _calls(lark, wire.replace(work, tools=tools), tokenizer)
    text = lark.rule(ANYTHING, kind="text")
    called = lark.rule(f"{text} {calls}", kind="called")
    most = MAX_CALLS if work.tool_choice.is_parallel else 1
    return lark.rule(f"{called}{{0,{most}}} {text}", kind="body")


def _loosened(tool: dict[str, Any]) -> dict[str, Any]:
    any_object = {"type": "object", "additionalProperties": True}
    return {**tool, "function": {**tool["function"], "parameters": any_object}}


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
