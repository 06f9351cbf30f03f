"""Calls as models without a dialect of mlx-lm's write them, and calls without arguments."""

from __future__ import annotations

import pytest

from engine import wire
from tests.engine.model.test_streamed_calls import calls_in, read
from tests.engine.model.test_text import join
from tests.engine.model.test_text import read as read_answer

TOOLS = tuple(
    {"type": "function", "function": {"name": name, "parameters": {}}}
    for name in ("weather", "run")
)
ONE = [("weather", {"city": "Bonn"})]
BARE = '{"name": "weather", "parameters": {"city": "Bonn"}}'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"type": "function", "name": "weather", "parameters": {"city": "Bonn"}}', ONE),
        (f"<|python_tag|>{BARE}", ONE),
        (f'{BARE}; {{"name": "run", "parameters": {{}}}}', [*ONE, ("run", {})]),
        (f"<|tool_call|>[{BARE}]", ONE),
        (f"<|tool_call|>[{BARE}, {BARE}]<|/tool_call|>", ONE * 2),
    ],
)
def test_a_bare_call_may_have_what_models_put_around_it(
    text: str, calls: list[tuple[str, object]]
) -> None:
    assert calls_in(read_answer(text, tools=TOOLS)[1]) == calls


@pytest.mark.parametrize("text", ["<|python_tag|>print(1)", '{"type": "function", "name": "x"}'])
def test_what_only_begins_so_is_text(text: str) -> None:
    pieces = read_answer(text, tools=TOOLS)[1]
    assert join(pieces) == text and all(one.channel is wire.Channel.CONTENT for one in pieces)


@pytest.mark.parametrize("between", ["[ARGS]", "", "[CALL_ID]a1B2c3D4e[ARGS]"])
def test_mistral_may_name_a_call_or_leave_out_its_mark(between: str) -> None:
    section = f'weather{between}{{"city": "Bonn"}}'
    for parts in ([section], list(section)):
        assert calls_in(read("mistral", parts)) == ONE


@pytest.mark.parametrize("arguments", ["null", '""', '"{}"', "{}"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    section = f'{{"name": "weather", "arguments": {arguments}}}'
    assert calls_in(read("json_tools", [section])) == [("weather", {})]
