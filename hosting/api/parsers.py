"""The body of an API call, whatever its Content-Type says: curl's default is not JSON's."""

from __future__ import annotations

from typing import IO, Any

from django.conf import settings
from rest_framework.parsers import BaseParser

from hosting.api.errors import ApiError
from hosting.json_body import BadJson, read_json


class JsonBody(BaseParser):
    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: Any = None, parser_context: Any = None) -> Any:
        """Raises ApiError: 415 for a packed body, 413 above the limit, 400 for no JSON object."""
        encoding = (parser_context or {})["request"].headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise ApiError(
                415,
                "unsupported_content_encoding",
                f"The header Content-Encoding says {encoding[:40]!r}. Send the body as it is.",
                is_final=True,
            )
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise ApiError(
                413,
                "request_too_large",
                f"The body has more than {limit // 2**20} MB.",
                is_final=True,
            )
        try:
            data = read_json(body)
        except BadJson as bad:
            raise ApiError(400, "invalid_json", str(bad), param=bad.field) from None
        if not isinstance(data, dict):
            raise ApiError(400, "invalid_json", "The body must be a JSON object.")
        return data
