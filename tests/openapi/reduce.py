"""Cuts OpenAI's published OpenAPI description down to the schemas that the tests validate against.

`python -m tests.openapi.reduce openapi.json` writes tests/openapi/openai.json. Texts and examples
are left out, and OpenAPI 3.0's `nullable: true` becomes what JSON Schema 2020-12 says for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent / "openai.json"
ROOTS = (
    "CreateChatCompletionResponse",
    "CreateChatCompletionStreamResponse",
    "CreateCompletionResponse",
    "CreateEmbeddingResponse",
    "ErrorResponse",
    "ListModelsResponse",
    "Model",
    "Response",
    "ResponseStreamEvent",
)
PREFIX = "#/components/schemas/"
_PROSE = ("description", "example", "examples", "title", "deprecated", "discriminator")


def reduced(description: dict[str, Any]) -> dict[str, Any]:
    schemas = description["components"]["schemas"]
    kept: dict[str, Any] = {}
    wanted = list(ROOTS)
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept[name] = rewritten(schemas[name])
            wanted.extend(named_in(kept[name]))
    return {
        "openapi": description["openapi"],
        "info": {name: description["info"].get(name) for name in ("title", "version", "license")},
        "components": {"schemas": dict(sorted(kept.items()))},
    }


def rewritten(schema: Any) -> Any:
    """The same schema in JSON Schema 2020-12, without prose."""
    if isinstance(schema, list):
        return [rewritten(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        name: _rewritten_value(name, value) for name, value in schema.items() if _is_kept(name)
    }
    if plain.pop("nullable", False) is True:
        return {"anyOf": [plain, {"type": "null"}]}
    return plain


def _rewritten_value(name: str, value: Any) -> Any:
    """The names under `properties` are fields, not keywords."""
    if name == "properties":
        return {field: rewritten(schema) for field, schema in value.items()}
    return value if name in ("enum", "required", "default") else rewritten(value)


def _is_kept(name: str) -> bool:
    return name not in _PROSE and not name.startswith("x-")


def named_in(schema: Any) -> list[str]:
    """The schemas that this one refers to."""
    if isinstance(schema, list):
        return [name for one in schema for name in named_in(one)]
    if not isinstance(schema, dict):
        return []
    reference = schema.get("$ref")
    own = [reference.removeprefix(PREFIX)] if isinstance(reference, str) else []
    return own + [name for one in schema.values() for name in named_in(one)]


if __name__ == "__main__":
    published = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    TARGET.write_text(json.dumps(reduced(published), indent=0, ensure_ascii=False) + "\n", "utf-8")
