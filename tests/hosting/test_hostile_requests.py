"""Hundreds of bad bodies over all routes: each is refused with its field, and starts nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import AsyncClient

from hosting.models import Generation
from tests.hosting.hostile_requests import (
    EMBEDDINGS,
    GOOD,
    RERANK,
    free_fields,
    hostile_requests,
)
from tests.hosting.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.usefixtures("model")
BROKEN = [
    b"",
    b"{",
    b"[]",
    b"7",
    b'"text"',
    b"null",
    b"\xff\xfe",
    b'{"model": NaN}',
    b'{"model": "\\ud800"}',
    b"[" * 100_000,
    b'{"model": "demo", "messages": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
]


def fault_of(answer: Any) -> str | None:
    """Why this is no good refusal; None if it is one."""
    if not 400 <= answer.status_code < 500:
        return f"status {answer.status_code}"
    error = answer.json()["error"]
    return None if error["message"] else "no message"


async def test_each_is_refused_by_name(api: AsyncClient, engine: ScriptedEngine) -> None:
    cases = list(hostile_requests())
    assert len(cases) >= 200
    faults = []
    for route, body, field in cases:
        answer = await api.post(route, body, content_type="application/json")
        fault = fault_of(answer)
        if fault is None:
            error = answer.json()["error"]
            told = f"{error.get('param')} {error['message']}"
            fault = None if field in told else f"names {told!r}"
        if fault:
            faults.append(f"{route} {field}={json.dumps(body.get(field))[:60]}: {fault}")
    assert not faults, "\n".join(faults)
    assert not await Generation.objects.aexists()
    assert not engine.generates


@pytest.mark.parametrize("route", list(GOOD))
async def test_what_is_no_json_object_is_refused(api: AsyncClient, route: str) -> None:
    for body in BROKEN:
        answer = await api.post(route, body, content_type="application/json")
        assert fault_of(answer) is None, (body[:40], answer.content)


@pytest.mark.parametrize(("route", "field", "body"), list(free_fields("@")))
async def test_deep_nesting_is_refused_by_name(
    api: AsyncClient, engine: ScriptedEngine, route: str, field: str, body: dict[str, Any]
) -> None:
    for depth in (300, 600, 979, 5000):
        answer = await api.post(route, said(body, nested(depth)), content_type="application/json")
        assert answer.status_code == 400, (depth, answer.content)
        is_readable = depth < 900  # deeper than Python reads, nobody knows the field
        assert "nested" in answer.json()["error"]["message"]
        assert not is_readable or repr(field) in answer.json()["error"]["message"]
    assert not engine.generates


@pytest.mark.parametrize(("route", "field", "body"), list(free_fields("@")))
async def test_nesting_that_a_schema_may_have_is_taken(
    api: AsyncClient, engine: ScriptedEngine, route: str, field: str, body: dict[str, Any]
) -> None:
    for more in ({}, {"stream": True}):
        deep = said(body | more, nested(150))
        answer = await api.post(route, deep, content_type="application/json")
        assert answer.status_code == 200 or route in (EMBEDDINGS, RERANK), answer.content
    assert engine.generates


@pytest.mark.parametrize(("route", "field", "body"), list(free_fields("@")))
async def test_a_number_beyond_all_is_refused(
    api: AsyncClient, engine: ScriptedEngine, route: str, field: str, body: dict[str, Any]
) -> None:
    for number in ("1e999", "-1e999"):
        answer = await api.post(route, said(body, number), content_type="application/json")
        assert answer.status_code == 400
        assert number in answer.json()["error"]["message"]
    assert not engine.generates


def nested(depth: int) -> str:
    """With a character in two escapes, for which a body is looked through once more."""
    return '{"x": ' * depth + '"\\ud83d\\ude00"' + "}" * depth


def said(body: dict[str, Any], value: str) -> str:
    return json.dumps(body).replace('"@"', value)
