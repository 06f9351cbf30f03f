"""Asks OpenAI's own description whether an answer has the form that it promises."""

from __future__ import annotations

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.openapi.reduce import PREFIX, TARGET

_URI = "urn:openai"


def check(name: str, value: Any) -> None:
    """`value` is what the schema `name` says."""
    error = next(_validator(name).iter_errors(value), None)
    if error is not None:
        where = "/".join(map(str, error.absolute_path))
        raise AssertionError(f"no {name}: at '{where}': {error.message[:500]}\n{value}")


def check_event(event: dict[str, Any]) -> None:
    """One event of a response's stream, by the schema of its own type."""
    check(_event_schemas()[event["type"]], event)


@functools.cache
def _description() -> dict[str, Any]:
    description: dict[str, Any] = json.loads(TARGET.read_text("utf-8"))
    return description


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    resource = Resource.from_contents(_description(), default_specification=DRAFT202012)
    registry = Registry().with_resource(_URI, resource)
    return Draft202012Validator({"$ref": f"{_URI}{PREFIX}{name}"}, registry=registry)


@functools.cache
def _event_schemas() -> dict[str, str]:
    schemas = _description()["components"]["schemas"]
    names = [one["$ref"].removeprefix(PREFIX) for one in schemas["ResponseStreamEvent"]["anyOf"]]
    return {schemas[name]["properties"]["type"]["enum"][0]: name for name in names}
