"""Which markers of a model's text lead into thoughts and tool calls, and out again.

mlx-lm's state machine, but where nobody offered a tool, and for models that forget the marker
before a call: Qwen's coders often begin with `<function=NAME>` and only close with `</tool_call>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlx_lm.generate import TextStateMachine, make_text_state_machine

from engine.model.tool_dialects import bare_start
from engine.model.tool_parsers import parser_name

NORMAL, REASONING, TOOL = "normal", "reasoning", "tool"

Edges = dict[str, list[tuple[str, str]]]


def is_bare_call(marker: str) -> bool:
    """It is a part of the call that it begins."""
    return marker.startswith("<function=")


def with_tools(tokenizer: Any, tools: Sequence[dict[str, Any]]) -> TextStateMachine:
    """Of an answer that may call these."""
    if parser_name(tokenizer) != "qwen3_coder":
        return make_text_state_machine(tokenizer)
    edges = _plain_edges(tokenizer)
    edges[REASONING].append((tokenizer.tool_call_start, TOOL))
    edges[TOOL] = [(tokenizer.tool_call_end, NORMAL)]
    bare = (bare_start(tool["function"]["name"]) for tool in tools)
    edges[NORMAL] += [(start, TOOL) for start in (tokenizer.tool_call_start, *bare)]
    return TextStateMachine(edges)


def without_tools(tokenizer: Any) -> TextStateMachine:
    """Nobody offered a tool: what looks like a call is text."""
    edges = _plain_edges(tokenizer)
    for state, transitions in tokenizer.response_transitions.items():
        to_text = [(marker, to) for marker, to in transitions if to != TOOL]
        edges.setdefault(state, []).extend(to_text)
    return TextStateMachine({state: each for state, each in edges.items() if each})


def _plain_edges(tokenizer: Any) -> Edges:
    edges: Edges = {NORMAL: [], REASONING: []}
    if tokenizer.has_thinking:
        edges[NORMAL].append((tokenizer.think_start, REASONING))
        edges[REASONING].append((tokenizer.think_end, NORMAL))
    edges[NORMAL] += [(marker, NORMAL) for marker in tokenizer.structural_markers]
    return edges
