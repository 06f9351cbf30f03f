"""What an answer must look like, as callers say it in several ways: one wire.Grammar.

And which tools it may or must call: one wire.ToolChoice. It knows no dialect but OpenAI's words.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from engine import wire
from hosting.api.errors import invalid
from hosting.api.messages import custom_unsupported
from hosting.json_body import BadJson, read_json

Tools = tuple[dict[str, Any], ...]
_Kind = wire.GrammarKind
# Fields of vLLM and llama.cpp. A grammar is GBNF or Lark: its text tells.
GRAMMAR_FIELDS = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "grammar": "grammar",
}
_STRUCTURED = ("json", "json_object", "regex", "choice", "grammar")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTools:
    """`tools` are those that the model is told of."""

    tools: Tools
    choice: wire.ToolChoice


def read_grammar(body: dict[str, Any]) -> wire.Grammar | None:
    """From response_format, structured_outputs or a field of its own. Raises ApiError."""
    found = list(_grammars(body))
    if len(found) > 1:
        both = " and ".join(grammar.param for grammar in found[:2])
        raise invalid(found[1].param, f"Only one of {both} can be held to.")
    return found[0] if found else None


def schema_grammar(schema: Any, *, param: str, is_strict: bool) -> wire.Grammar:
    """Raises ApiError."""
    if not isinstance(schema, dict | bool):
        raise invalid(param, "This must be a JSON schema.")
    return wire.Grammar(
        kind=_Kind.JSON_SCHEMA, param=param, source=json.dumps(schema), is_strict=is_strict
    )


def read_response_format(form: Any) -> wire.Grammar | None:
    """OpenAI's {"type": "text" | "json_object" | "json_schema", ...}. Raises ApiError."""
    if not isinstance(form, dict):
        raise invalid("response_format", "This must be an object.")
    match form.get("type"):
        case "text":
            return None
        case "json_object":
            return wire.Grammar(kind=_Kind.JSON_OBJECT, param="response_format")
        case "json_schema":
            inner = form.get("json_schema")
            if not isinstance(inner, dict):
                raise invalid("response_format.json_schema", "This must be an object.")
            where = "response_format.json_schema.schema"
            is_strict = inner.get("strict") is True
            return schema_grammar(inner.get("schema"), param=where, is_strict=is_strict)
    raise invalid("response_format.type", "The type must be text, json_object or json_schema.")


def choose_tools(choice: Any, tools: Tools, *, is_parallel: bool = True) -> ChosenTools:
    """OpenAI's tool_choice: a word, or an object that names a function. Raises ApiError."""
    match choice:
        case None | "auto":
            return _chosen(tools, is_parallel=is_parallel)
        case "none":
            return _chosen((), is_parallel=is_parallel)
        case "required":
            return _chosen(tools, is_parallel=is_parallel, is_required=True)
        case {"type": "allowed_tools", "allowed_tools": dict() as allowed}:
            return _allowed(allowed, tools, is_parallel=is_parallel)
        case {"type": "function", "function": {"name": str() as name}}:
            return _chosen(tools, is_parallel=is_parallel, is_required=True, name=name)
        case {"type": "custom"}:
            raise custom_unsupported("tool_choice")
    raise invalid(
        "tool_choice", "This must be auto, none, required, or an object that names a function."
    )


def _chosen(
    tools: Tools, *, is_parallel: bool, is_required: bool = False, name: str | None = None
) -> ChosenTools:
    names = [tool["function"]["name"] for tool in tools]
    if is_required and not tools:
        raise invalid("tool_choice", "This needs tools to choose from.")
    if name is not None and name not in names:
        raise invalid("tool_choice", f"There is no tool named '{name[:80]}'.")
    choice = wire.ToolChoice(is_required=is_required, name=name, is_parallel=is_parallel)
    return ChosenTools(tools=tools, choice=choice)


def _allowed(allowed: dict[str, Any], tools: Tools, *, is_parallel: bool) -> ChosenTools:
    """Only these of the tools; `mode` is auto or required."""
    try:
        names = {one["function"]["name"] for one in allowed["tools"]}
    except (LookupError, TypeError):
        raise invalid("tool_choice.allowed_tools.tools", "This must be a list of tools.") from None
    kept = tuple(tool for tool in tools if tool["function"]["name"] in names)
    is_required = allowed.get("mode") == "required"
    return _chosen(kept, is_parallel=is_parallel, is_required=is_required)


def _grammars(body: dict[str, Any]) -> Iterator[wire.Grammar]:
    if (form := body.get("response_format")) is not None:
        grammar = read_response_format(form)
        if grammar is not None:
            yield grammar
    if (structured := body.get("structured_outputs")) is not None:
        yield from _structured(structured)
    for param, kind in GRAMMAR_FIELDS.items():
        if body.get(param) is not None:
            yield _grammar(kind, body[param], param=param)


def _structured(structured: Any) -> Iterator[wire.Grammar]:
    if not isinstance(structured, dict):
        raise invalid("structured_outputs", "This must be an object.")
    for kind in _STRUCTURED:
        if structured.get(kind) not in (None, False):
            yield _grammar(kind, structured[kind], param=f"structured_outputs.{kind}")


def _grammar(kind: str, value: Any, *, param: str) -> wire.Grammar:
    match kind:
        case "json":
            return schema_grammar(_unquoted(value, param), param=param, is_strict=False)
        case "json_object":
            return wire.Grammar(kind=_Kind.JSON_OBJECT, param=param)
        case "choice":
            return wire.Grammar(kind=_Kind.CHOICE, param=param, source=_choices(value, param))
        case "regex":
            return wire.Grammar(kind=_Kind.REGEX, param=param, source=_text(value, param))
    source = _text(value, param)
    return wire.Grammar(
        kind=_Kind.GBNF if "::=" in source else _Kind.LARK, param=param, source=source
    )


def _unquoted(value: Any, param: str) -> Any:
    """A schema may come as its text."""
    try:
        return read_json(value.encode()) if isinstance(value, str) else value
    except BadJson:
        raise invalid(param, "This must be a JSON schema.") from None


def _choices(value: Any, param: str) -> str:
    if not isinstance(value, list) or not value:
        raise invalid(param, "This must be a list of texts.")
    if not all(isinstance(one, str) and one for one in value):
        raise invalid(param, "Each choice must be a text that is not empty.")
    return json.dumps(value)


def _text(value: Any, param: str) -> str:
    if not isinstance(value, str) or not value:
        raise invalid(param, "This must be a text that is not empty.")
    return value
