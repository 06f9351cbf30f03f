"""Bodies of very many parts: refused before any part is made, wherever JSON comes in."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from django.test import AsyncClient, Client

from hosting.json_body import MAX_PARTS, BadJson, read_json
from tests.hosting.hostile_requests import GOOD

MANY = {
    "lists": "[" + "[]," * MAX_PARTS + "0]",
    "objects": "[" + "{}," * MAX_PARTS + "0]",
    "texts": "[" + '"a",' * MAX_PARTS + "0]",
    "fields": "{" + ",".join(f'"{number}":1' for number in range(MAX_PARTS)) + "}",
    "texts with quotes": "[" + '"\\"",' * MAX_PARTS + "0]",
}


@pytest.mark.parametrize("kind", list(MANY))
def test_millions_of_parts_are_refused_before_they_are_made(kind: str) -> None:
    body = ('{"metadata": ' + MANY[kind] + "}").encode()
    tracemalloc.start()
    try:
        with pytest.raises(BadJson, match="more than 500,000 lists, objects and texts"):
            read_json(body)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2 * len(body)


@pytest.mark.parametrize(
    "text", ["[{" * MAX_PARTS, '"' * MAX_PARTS, '\\"[\n' * MAX_PARTS, "\\" * MAX_PARTS]
)
def test_a_long_text_may_have_any_number_of_brackets_and_quotes(text: str) -> None:
    said = {"messages": [{"role": "user", "content": text}]}
    assert read_json(json.dumps(said).encode()) == said


def test_as_many_parts_as_are_allowed_are_read() -> None:
    lists = MAX_PARTS - 3  # beside the object, the field and the outer list
    found = read_json(('{"a": [' + "[]," * lists + "0]}").encode())
    assert len(found["a"]) == lists + 1


def test_a_number_of_tokens_is_no_number_of_parts() -> None:
    assert len(read_json(b"[" + b"1," * MAX_PARTS + b"1]")) == MAX_PARTS + 1


@pytest.mark.parametrize("route", list(GOOD))
@pytest.mark.usefixtures("model")
async def test_every_address_of_the_api_refuses_them(api: AsyncClient, route: str) -> None:
    body = json.dumps(GOOD[route] | {"more": "@"}).replace('"@"', MANY["lists"])
    answer = await api.post(route, body, content_type="application/json")
    assert answer.status_code == 400
    assert "more than 500,000" in answer.json()["error"]["message"]


def test_so_does_the_chat(page: Client) -> None:
    body = '{"content": "Hi", "more": ' + MANY["lists"] + "}"
    answer = page.post("/chat/messages", body, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
