"""Asks the web process whether the whole service is ready, and why not."""

from __future__ import annotations

import http.client
import json

from hosting.supervisor.parts import Place

ANSWER_SECONDS = 3.0


def why_not_ready(place: Place, *, seconds: float = ANSWER_SECONDS) -> str | None:
    """None when ready, else what is missing, in words."""
    host = place.base_url.removeprefix("http://").rpartition(":")[0].strip("[]")
    # Not urllib: it would send this through the machine's HTTP proxy
    connection = http.client.HTTPConnection(host, place.port, timeout=seconds)
    try:
        # By the name that is always allowed, whatever the address it listens on
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException):
        return "the web process does not answer yet"
    finally:
        connection.close()
    return None if answer.status == 200 else _reasons(body, answer.status)


def _reasons(body: bytes, status: int) -> str:
    try:
        return "; ".join(map(str, json.loads(body)["reasons"]))
    except (ValueError, KeyError, TypeError):
        return f"/readyz answers {status}"
