"""The text of the queue's Lua scripts. It does not know Redis; who has a connection runs them."""

from __future__ import annotations

import functools
import pathlib

_FOLDER = pathlib.Path(__file__).parent.parent / "lua"
_PRELUDE = ("_request", "_queue", "_routing")


@functools.cache
def script_text(name: str) -> str:
    """Script `name` with the functions that all scripts share in front of it."""
    return "\n".join((_FOLDER / f"{part}.lua").read_text("utf-8") for part in (*_PRELUDE, name))
