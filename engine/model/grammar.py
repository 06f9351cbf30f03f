"""Grammars over one model's tokens: compiled in a thread of their own, kept, and followed by rows.

What an answer must look like is written down by answer_grammar.py. The same grammar is compiled
once; each row follows a copy.
"""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLTokenizer

from engine import wire
from engine.core.grammar_text import is_strict, parser_limits, readable_error
from engine.model.answer_grammar import GrammarRejected, answer_grammar, marks_calls

MAX_COMPILED = 64
# What a row's masks may cost others: so much at first, and so much more with every token.
FIRST_SECONDS = 0.5
TOKEN_SECONDS = 0.005
_ALL = -1  # every bit set: any token


class GrammarShop:
    """For one model. Orders are taken in the model thread."""

    def __init__(self, tokenizer: Any, *, end_token_ids: Collection[int]):
        self._tokenizer = tokenizer
        self._end_token_ids = sorted(end_token_ids)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar")
        self._tokens: LLTokenizer | None = None
        self._compiled: collections.OrderedDict[str, LLMatcher] = collections.OrderedDict()

    @property
    def num_compiled(self) -> int:
        """Those that are kept: at most MAX_COMPILED, the last ones used."""
        return len(self._compiled)

    def order(self, work: wire.Work) -> OrderedGrammar | None:
        """None for an answer that may be anything."""
        is_held = work.grammar is not None or work.tool_choice.is_required
        if not is_held and not (self._marks_calls and any(map(is_strict, work.tools))):
            return None
        return OrderedGrammar(self._thread.submit(self._compile, work))

    @functools.cached_property
    def _marks_calls(self) -> bool:
        return marks_calls(self._tokenizer)

    def _compile(self, work: wire.Work) -> LLMatcher:
        """In the shop's thread, as all below."""
        text = answer_grammar(work, self._tokenizer)
        if text not in self._compiled:
            self._compiled[text] = self._compile_new(text)
        self._compiled.move_to_end(text)
        while len(self._compiled) > MAX_COMPILED:
            self._compiled.popitem(last=False)
        return self._compiled[text]

    def _compile_new(self, text: str) -> LLMatcher:
        self._tokens = self._tokens or self._read_tokens()
        matcher = LLMatcher(self._tokens, text, log_level=0, limits=parser_limits())
        if matcher.is_error():
            raise GrammarRejected(readable_error(matcher.get_error()))
        return matcher

    def _read_tokens(self) -> LLTokenizer:
        try:
            description = self._tokenizer.backend_tokenizer.to_str()
            return LLTokenizer(description, eos_token=self._end_token_ids)
        except (AttributeError, ValueError) as error:
            raise GrammarRejected("its tokenizer is of an unknown kind") from error


class OrderedGrammar:
    """A PendingGrammar (core/constraint.py)."""

    def __init__(self, future: Future[LLMatcher]):
        self._future = future

    @property
    def is_ready(self) -> bool:
        return self._future.done() and self._future.exception() is None

    @property
    def rejection(self) -> str | None:
        if not self._future.done() or (error := self._future.exception()) is None:
            return None
        return str(error) if isinstance(error, GrammarRejected) else type(error).__name__

    def start(self, output_token_ids: Sequence[int]) -> RowMatcher:
        # A copy shares nothing that moves: the one that is kept stays at its start.
        matcher = RowMatcher(self._future.result().deep_copy())
        for token_id in output_token_ids:
            matcher.advance(token_id)
        return matcher


class RowMatcher:
    """A Constraint (core/constraint.py): where one row stands in its grammar."""

    def __init__(self, matcher: LLMatcher):
        self._matcher = matcher
        self._seconds_left = FIRST_SECONDS

    @property
    def fault(self) -> str | None:
        if self._matcher.is_error():
            return readable_error(self._matcher.get_error())
        return "it takes too long to follow" if self._seconds_left < 0 else None

    def advance(self, token_id: int) -> None:
        self._matcher.consume_token(token_id)

    def fill(self, words: npt.NDArray[np.int32]) -> None:
        """After a fault every token: the row will be given up."""
        started_at = time.thread_time()
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.int32)
        num_words = min(len(mask), len(words))
        words[:num_words] = mask[:num_words]
        self._seconds_left += TOKEN_SECONDS - (time.thread_time() - started_at)
        if self.fault is not None:
            words[:] = _ALL
