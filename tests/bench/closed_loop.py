"""Closed-loop load inside one process, for whatever turns prompts into tokens step by step.

It does not know who that is. Without HTTP the figures are those of the engine alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Protocol


class NewTokens(NamedTuple):
    """What one step brought one request."""

    key: int
    num_tokens: int
    is_last: bool


class TokenSource(Protocol):
    def submit(self, prompt_token_ids: list[int], *, max_tokens: int) -> int:
        """Start a request; its key."""

    def step(self) -> list[NewTokens]: ...


class Prompt(NamedTuple):
    token_ids: list[int]
    max_tokens: int


class ClosedLoop:
    """Keeps one request of every stream with the source and notes when each token came."""

    def __init__(self, source: TokenSource, streams: list[list[Prompt]]) -> None:
        self._source = source
        self._waiting = [deque(prompts) for prompts in streams]
        self._stream_of: dict[int, int] = {}
        self._asked_at: dict[int, float] = {}
        self._token_times: dict[int, list[float]] = {}

    def run(self) -> dict[str, Any]:
        started_at = time.perf_counter()
        for stream in range(len(self._waiting)):
            self._submit_next(stream)
        while self._stream_of:
            for new in self._source.step():
                self._note(new)
        return {"seconds": time.perf_counter() - started_at, **self._samples()}

    def _submit_next(self, stream: int) -> None:
        if not self._waiting[stream]:
            return
        prompt = self._waiting[stream].popleft()
        asked_at = time.perf_counter()
        key = self._source.submit(prompt.token_ids, max_tokens=prompt.max_tokens)
        self._stream_of[key] = stream
        self._asked_at[key] = asked_at
        self._token_times[key] = []

    def _note(self, new: NewTokens) -> None:
        self._token_times[new.key] += [time.perf_counter()] * new.num_tokens
        if new.is_last:
            self._submit_next(self._stream_of.pop(new.key))

    def _samples(self) -> dict[str, Any]:
        times = self._token_times
        return {
            "tokens": sum(map(len, times.values())),
            "ttfts": [times[key][0] - self._asked_at[key] for key in times],
            "gaps": [later - earlier for one in times.values() for earlier, later in pairwise(one)],
        }


def serve_jobs(
    source_of: Callable[[dict[str, Any]], TokenSource], tokenize: Callable[[str], list[int]]
) -> None:
    """Answer each line of standard input, a job, with a line.

    A job: {"streams": [[{"prompt", "max_tokens"}, ...], ...], ...what `source_of` wants to know}.
    """
    for line in sys.stdin:
        job = json.loads(line)
        streams = [
            [Prompt(tokenize(one["prompt"]), one["max_tokens"]) for one in stream]
            for stream in job["streams"]
        ]
        print(json.dumps(ClosedLoop(source_of(job), streams).run()), flush=True)
