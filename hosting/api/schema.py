"""What drf-spectacular needs to be told to describe the API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "accounts.auth.ApiKeyAuthentication"
    name = "ApiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "sk-hearth-…",
            "description": "A key from the page 'API keys'. The header x-api-key is taken too.",
        }


class Schema(AutoSchema):
    def get_description(self) -> str:
        """None but what an address gives: docstrings are for those who read the code."""
        return ""

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        """With one example, not a list of examples to choose from."""
        operation = super().get_operation(*args, **kwargs)
        for content in (operation or {}).get("requestBody", {}).get("content", {}).values():
            if examples := content.pop("examples", None):
                [example] = examples.values()
                content["example"] = example["value"]
        return operation


def only_v1(endpoints: list[Any], **_: Any) -> list[Any]:
    """The schema describes the public API, not the chat page's own endpoints."""
    return [endpoint for endpoint in endpoints if endpoint[0].startswith("/v1/")]
