"""Answers are JSON or an event stream, by the request's body; `Accept` does not matter."""

from __future__ import annotations

from typing import Any

from rest_framework.negotiation import BaseContentNegotiation


class AlwaysJson(BaseContentNegotiation):
    """Clients ask for text/event-stream and get their errors as JSON; never a 406."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type
