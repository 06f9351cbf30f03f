"""How deep lists and objects may lie in each other, on both sides of the wire."""

from __future__ import annotations

from typing import Any

# Schemas that people write stay below 20; whatever walks a value later has room for this many
MAX_DEPTH = 200


def is_deeper(value: Any, depth: int) -> bool:
    """Whether more than `depth` lists and objects lie in each other. Level by level, as a function
    that calls itself would meet Python's own limit."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(depth):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
    return bool(level)
