"""`python -m engine.intake.grammar_trial`: compiles other people's grammars, one line at a time.

A process of its own, with caps on memory and time: one that takes too long dies of its alarm clock,
in the middle of compiled code too. A line in is a JSON list of grammars; a line out is
[number at fault, reason] or null. The first line out says that it is ready.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from engine import wire
from engine.core.grammar_text import (
    GrammarInvalid,
    grammar_part,
    joined,
    lark_part,
    parser_limits,
    readable_error,
)
from engine.intake.limits import limit_memory

MEMORY_BYTES = 1024**3
TRIAL_SECONDS = 2.0
_OPENING = list(b"{")  # of an object, behind which all properties may come at once


def main() -> None:
    limit_memory(MEMORY_BYTES)
    tokenizer = LLTokenizer("byte")
    print("ready", flush=True)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_REAL, TRIAL_SECONDS)
        verdict = _first_fault(tokenizer, line)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(verdict), flush=True)


def _first_fault(tokenizer: LLTokenizer, line: str) -> tuple[int, str] | None:
    for number, plain in enumerate(json.loads(line)):
        try:
            reason = _fault(tokenizer, _grammar(plain))
        except (MemoryError, RecursionError):
            reason = "it is too large"
        if reason:
            return number, reason
    return None


def _grammar(plain: dict[str, Any]) -> wire.Grammar:
    return wire.Grammar(**{**plain, "kind": wire.GrammarKind(plain["kind"])})


def _fault(tokenizer: LLTokenizer, grammar: wire.Grammar) -> str:
    """Why it cannot be compiled, or its first steps not be taken; empty if all is well."""
    try:
        part = grammar_part(grammar, name="answer")
    except GrammarInvalid as error:
        return str(error)
    whole = joined([lark_part("start: @answer", name="top"), part])
    matcher = LLMatcher(tokenizer, whole, log_level=0, limits=parser_limits())
    if not matcher.is_error():
        matcher.compute_bitmask()
    if not matcher.is_error() and matcher.validate_tokens(_OPENING):
        matcher.consume_tokens(_OPENING)
        matcher.compute_bitmask()
    return readable_error(matcher.get_error()) if matcher.is_error() else ""


if __name__ == "__main__":
    main()
