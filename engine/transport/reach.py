"""How long a row of each model an engine can serve: so that the queue gives others the rest.

It does not know what others can.
"""

from __future__ import annotations

from engine import wire

LONGEST_TOKENS = 1 << 24  # beyond any context


def reach_of(status: wire.EngineStatus) -> dict[str, int]:
    """Tokens by model; 0 of one that cannot be loaded there."""
    failed = {model.name: 0 for model in status.models if model.state == "failed"}
    sized = status.memory.models if status.memory else ()
    return {memory.name: _longest_row(memory) for memory in sized} | failed


def _longest_row(memory: wire.ModelMemory) -> int:
    if memory.room_bytes <= 0:
        return 0
    if memory.needs is None:
        return LONGEST_TOKENS
    return memory.needs.most_tokens(memory.room_bytes, at_most=LONGEST_TOKENS)
