"""What a request wants its answer to look like: a grammar, or calls of tools that must be made."""

from __future__ import annotations

import json
from collections.abc import Iterator

from engine import wire
from engine.intake.messages import check_text, clean_tools
from engine.intake.refusal import invalid


def grammars_of(generate: wire.Generate) -> list[wire.Grammar]:
    """All that the answer may be held to, to be tried before it is let in. Raises Refusal."""
    choice = generate.tool_choice
    grammars = []
    if generate.grammar is not None:
        check_text(generate.grammar.param, generate.grammar.source)
        grammars.append(generate.grammar)
    is_held = choice.is_required or generate.grammar is not None
    return [*grammars, *_of_tools(generate, only_strict=not is_held)]


def _of_tools(generate: wire.Generate, *, only_strict: bool) -> Iterator[wire.Grammar]:
    choice = generate.tool_choice
    tools = [tool["function"] for tool in clean_tools(generate.tools)]
    if choice.is_required and not tools:
        raise invalid("tool_choice", "tool_choice needs tools to choose from.")
    if choice.name is not None and choice.name not in [tool["name"] for tool in tools]:
        raise invalid("tool_choice", f"There is no tool named '{choice.name[:80]}'.")
    for number, tool in enumerate(tools):
        is_held = choice.name in (None, tool["name"]) and (tool.get("strict") or not only_strict)
        if is_held and tool.get("parameters"):
            yield wire.Grammar(
                kind=wire.GrammarKind.JSON_SCHEMA,
                param=f"tools[{number}].function.parameters",
                source=json.dumps(tool["parameters"]),
                is_strict=bool(tool.get("strict")),
            )
