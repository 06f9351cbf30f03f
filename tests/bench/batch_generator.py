"""mlx-lm's BatchGenerator as a source of tokens: no HTTP, no text.

`python -m tests.bench.batch_generator MODEL_FOLDER`; jobs as in closed_loop.py, with
"temperature" and "shares_sampler".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mlx_lm import load
from mlx_lm.generate import BatchGenerator
from mlx_lm.sample_utils import make_sampler

from tests.bench.closed_loop import NewTokens, serve_jobs

NUM_ROWS = 32  # as many as mlx_lm.server's default


class BatchGeneratorSource:
    def __init__(self, model: Any, *, temperature: float, shares_sampler: bool) -> None:
        self._generator = BatchGenerator(model, completion_batch_size=NUM_ROWS)
        self._sampler_for_request = _sampler_source(temperature, shares_sampler=shares_sampler)

    def submit(self, prompt_token_ids: list[int], *, max_tokens: int) -> int:
        (key,) = self._generator.insert(
            [prompt_token_ids], [max_tokens], samplers=[self._sampler_for_request()]
        )
        return int(key)

    def step(self) -> list[NewTokens]:
        _, responses = self._generator.next()
        return [NewTokens(one.uid, 1, one.finish_reason is not None) for one in responses]


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

    def source_of(job: dict[str, Any]) -> BatchGeneratorSource:
        return BatchGeneratorSource(
            model, temperature=job["temperature"], shares_sampler=job["shares_sampler"]
        )

    def tokenize(prompt: str) -> list[int]:
        message = {"role": "user", "content": prompt}
        token_ids: list[int] = tokenizer.apply_chat_template([message], add_generation_prompt=True)
        return token_ids

    serve_jobs(source_of, tokenize)


if __name__ == "__main__":
    main(sys.argv[1])
