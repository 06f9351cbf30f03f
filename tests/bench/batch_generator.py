"""mlx-lm's BatchGenerator under closed-loop load in its own process: no HTTP, no text.

`python -m tests.bench.batch_generator MODEL` reads a job a line and answers each with a line.
A job: {"streams": [[prompt, ...], ...], "max_tokens": n, "temperature": t, "shares_sampler": bool}.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from mlx_lm import load
from mlx_lm.generate import BatchGenerator
from mlx_lm.sample_utils import make_sampler


class ClosedLoop:
    """Keeps one request of every stream in the generator and notes when each token came."""

    def __init__(
        self,
        generator: BatchGenerator,
        streams: list[list[list[int]]],
        *,
        max_tokens: int,
        sampler_for_request: Callable[[], Any],
    ) -> None:
        self._generator = generator
        self._waiting = [deque(prompts) for prompts in streams]
        self._max_tokens = max_tokens
        self._sampler_for_request = sampler_for_request
        self._stream_of: dict[int, int] = {}
        self._token_times: dict[int, list[float]] = {}  # the first is the time of submission

    def run(self) -> dict[str, Any]:
        started_at = time.perf_counter()
        for stream in range(len(self._waiting)):
            self._submit_next(stream)
        while self._stream_of:
            _, responses = self._generator.next()
            self._note(responses)
        return {"seconds": time.perf_counter() - started_at, **self._samples()}

    def _submit_next(self, stream: int) -> None:
        if not self._waiting[stream]:
            return
        (uid,) = self._generator.insert(
            [self._waiting[stream].popleft()],
            [self._max_tokens],
            samplers=[self._sampler_for_request()],
        )
        self._stream_of[uid] = stream
        self._token_times[uid] = [time.perf_counter()]

    def _note(self, responses: list[Any]) -> None:
        now = time.perf_counter()
        for response in responses:
            self._token_times[response.uid].append(now)
            if response.finish_reason is not None:
                self._submit_next(self._stream_of.pop(response.uid))

    def _samples(self) -> dict[str, Any]:
        times = list(self._token_times.values())
        return {
            "tokens": sum(len(one) - 1 for one in times),
            "ttfts": [one[1] - one[0] for one in times],
            "gaps": [later - earlier for one in times for earlier, later in pairwise(one[1:])],
        }


def _sampler_source(temperature: float, *, shares_sampler: bool) -> Callable[[], Any]:
    """One for each request, as a service needs whose users choose a temperature, or one for all."""
    if temperature == 0:
        return lambda: None  # the generator's own greedy sampler, one for all
    if shares_sampler:
        sampler = make_sampler(temp=temperature)
        return lambda: sampler
    return lambda: make_sampler(temp=temperature)


def main(model_folder: str) -> None:
    model, tokenizer = load(model_folder)
    for line in sys.stdin:
        job = json.loads(line)
        streams = [
            [
                tokenizer.apply_chat_template(
                    [{"role": "user", "content": prompt}], add_generation_prompt=True
                )
                for prompt in prompts
            ]
            for prompts in job["streams"]
        ]
        generator = BatchGenerator(model, completion_batch_size=max(32, len(streams)))
        loop = ClosedLoop(
            generator,
            streams,
            max_tokens=job["max_tokens"],
            sampler_for_request=_sampler_source(
                job["temperature"], shares_sampler=job["shares_sampler"]
            ),
        )
        print(json.dumps(loop.run()), flush=True)
        generator.close()


if __name__ == "__main__":
    main(sys.argv[1])
