"""The header Idempotency-Key of a call: which name it gives, and what it stands for."""

from __future__ import annotations

import json
import re

from django.utils.crypto import salted_hmac
from rest_framework.request import Request

from hosting.actions.repeats import RepeatKey
from hosting.api.errors import invalid

HEADER = "Idempotency-Key"
MAX_CHARACTERS = 255
PATTERN = "^[!-~]+$"
_HOW_IT_IS_TOLD = ("stream", "stream_options")  # the answer is the same


def repeat_key(http_request: Request) -> RepeatKey | None:
    """None without the header. Raises ApiError."""
    name = http_request.headers.get(HEADER)
    if name is None:
        return None
    if not re.match(PATTERN, name) or len(name) > MAX_CHARACTERS:
        raise invalid(HEADER, f"{HEADER} must be 1 to {MAX_CHARACTERS} visible characters.")
    return RepeatKey(user=http_request.user, name=name, fingerprint=_fingerprint(http_request))


def _fingerprint(http_request: Request) -> str:
    """Keyed, so that it tells nothing of a prompt."""
    asked = {name: one for name, one in http_request.data.items() if name not in _HOW_IT_IS_TOLD}
    text = json.dumps([http_request.path, asked], sort_keys=True)
    return salted_hmac("hosting.repeat_key", text, algorithm="sha256").hexdigest()
