"""Thoughts as an opaque text that a client keeps and sends back."""

from __future__ import annotations

import base64

_SEAL = "hearth-"


def seal(reasoning: str) -> str:
    return _SEAL + base64.b64encode(reasoning.encode()).decode()


def unsealed(sealed: str) -> str:
    """Nothing for what another server has sealed."""
    if not sealed.startswith(_SEAL):
        return ""
    try:
        return base64.b64decode(sealed.removeprefix(_SEAL), validate=True).decode()
    except ValueError:  # no base64, or not of a text
        return ""
