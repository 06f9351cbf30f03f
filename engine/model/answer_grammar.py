"""What one answer must look like, from its first token: thinking, then the answer or tool calls.

Where tools are strict but need not be called, text is free and what begins as a call is held.
"""

from __future__ import annotations

from typing import Any

from engine import wire
from engine.core.grammar_text import GrammarInvalid, grammar_part, is_strict
from engine.model import harmony_grammar
from engine.model.call_grammar import MAX_CALLS, bare_calls, calls_rule
from engine.model.harmony import markers_of
from engine.model.lark import ANYTHING, LarkBuilder
from engine.model.token_ids import ids_of
from engine.model.tool_dialects import ARGUMENTS_MARK, Dialect, dialect_of
from engine.model.tool_parsers import parser_name

_SPACE = r"/[ \t\r\n]{0,8}/"


class GrammarRejected(Exception):
    """This model cannot be held to this grammar."""


def answer_grammar(work: wire.Work, tokenizer: Any) -> str:
    """In llguidance's form. Raises GrammarRejected."""
    if tokenizer.response_transitions:
        raise GrammarRejected("its answers have a form that grammars cannot be fitted into")
    lark = LarkBuilder(_control_tokens(tokenizer))
    if markers_of(tokenizer):
        return lark.finish(_in_messages(lark, work, tokenizer))
    return lark.finish(_with_thinking(lark, _body(lark, work, tokenizer), work, tokenizer))


def marks_calls(tokenizer: Any) -> bool:
    """Its calls begin with a token of their own, so that no text can be taken for one."""
    if tokenizer.response_transitions:
        return False
    try:
        control = _control_tokens(tokenizer)
    except GrammarRejected:
        return False
    dialect = _dialect(tokenizer)
    return (dialect.section_start or dialect.call_start).startswith(tuple(control))


def _body(lark: LarkBuilder, work: wire.Work, tokenizer: Any) -> str:
    must_call = work.tool_choice.is_required
    if work.grammar is None and not must_call:
        return _text_and_calls(lark, work, tokenizer)
    forms = [_calls(lark, work, tokenizer)] if work.tools else []
    if work.grammar is not None and not must_call:
        forms.append(_answer(lark, work.grammar))
    return lark.rule(" | ".join(forms), kind="body")


def _in_messages(lark: LarkBuilder, work: wire.Work, tokenizer: Any) -> str:
    """Each with its own header; the first call is the last message."""
    must_call = work.tool_choice.is_required
    is_free = work.grammar is None and not must_call
    choice = wire.replace(work.tool_choice, is_parallel=False)
    work = wire.replace(work, tool_choice=choice)
    calls = _calls(lark, _loosened(work) if is_free else work, tokenizer) if work.tools else None
    answer = ANYTHING if is_free else None
    if work.grammar is not None and not must_call:
        answer = _answer(lark, work.grammar)
    if answer is not None and work.has_thought:  # the prompt ends within the last message
        return answer
    return harmony_grammar.messages_rule(
        lark, calls=calls, answer=answer, has_preamble=work.grammar is None
    )


def _answer(lark: LarkBuilder, grammar: wire.Grammar) -> str:
    try:
        return lark.part(grammar_part(grammar, name="answer"))
    except GrammarInvalid as error:
        raise GrammarRejected(str(error)) from error


def _text_and_calls(lark: LarkBuilder, work: wire.Work, tokenizer: Any) -> str:
    calls = _calls(lark, _loosened(work), tokenizer)
    strict_tools = [tool for tool in work.tools if is_strict(tool)]
    bare = bare_calls(lark, _dialect(tokenizer), strict_tools)
    text = lark.rule(ANYTHING, kind="text")
    called = lark.rule(" | ".join([f"{text} {calls}", *bare]), kind="called")
    most = MAX_CALLS if work.tool_choice.is_parallel else 1
    return lark.rule(f"{called}{{0,{most}}} {text}", kind="body")


def _loosened(work: wire.Work) -> wire.Work:
    """Calls of tools that are not strict are only held to some object."""
    tools = tuple(tool if is_strict(tool) else _loosened_tool(tool) for tool in work.tools)
    return wire.replace(work, tools=tools)


def _loosened_tool(tool: dict[str, Any]) -> dict[str, Any]:
    any_object = {"type": "object", "additionalProperties": True}
    return {**tool, "function": {**tool["function"], "parameters": any_object}}


def _calls(lark: LarkBuilder, work: wire.Work, tokenizer: Any) -> str:
    name = work.tool_choice.name
    tools = [tool for tool in work.tools if name in (None, tool["function"]["name"])]
    is_parallel = work.tool_choice.is_parallel
    return calls_rule(lark, _dialect(tokenizer), tools, is_parallel=is_parallel)


def _dialect(tokenizer: Any) -> Dialect:
    if markers_of(tokenizer):
        return harmony_grammar.CALLS
    has_arguments_mark = bool(ids_of(tokenizer, ARGUMENTS_MARK))
    return dialect_of(parser_name(tokenizer), has_arguments_mark=has_arguments_mark)


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
