"""What a server says of its tools, before any of it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from hosting.mcp import client


@pytest.mark.parametrize(
    "plain",
    [
        *(None, [], {}, {"name": ""}, {"name": 1}, {"name": "x" * 129}, {"name": "a\x00"}),
        {"name": "a", "inputSchema": []},
        {"name": "a", "inputSchema": {"pattern": "\x00"}},
        {"name": "a", "inputSchema": {"pattern": "\ud800"}},
        {"name": "a", "inputSchema": {"maximum": float("inf")}},
        {"name": "a", "inputSchema": {"maximum": float("nan")}},
        {"name": "a", "inputSchema": {"description": "x" * 20_000}},
    ],
)
def test_what_no_database_or_model_takes_is_left_out(plain: Any) -> None:
    assert client._listed_tool(plain) is None


def test_a_tool_is_told_as_it_is() -> None:
    tool = client._listed_tool({"name": "a.b", "description": "Adds\x00", "inputSchema": {}})
    assert tool == client.ListedTool(name="a.b", description="Adds", input_schema={})


def test_a_schema_may_have_any_whole_character() -> None:
    schema = {"properties": {"mood": {"enum": ["\U0001f600", "ü"]}}}
    tool = client._listed_tool({"name": "a", "inputSchema": schema})
    assert tool is not None and tool.input_schema == schema
