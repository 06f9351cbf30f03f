"""The self-check at load: its verdict, and that nobody waits for all of it."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

from engine.model.capability import check_batching
from tests.engine.model.rig import loaded


class CountedModel:
    """A real model; `num_calls` says how often it was run."""

    def __init__(self, model: Any):
        self._model = model
        self.num_calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *arguments: Any, **options: Any) -> mx.array:
        self.num_calls += 1
        logits: mx.array = self._model(*arguments, **options)
        return logits


class PaddingBlind(CountedModel):
    """Answers wrongly, and in silence, when its rows are unequal."""

    def __call__(self, tokens: mx.array, **options: Any) -> mx.array:
        logits = super().__call__(tokens, **options)
        return logits + tokens.shape[0] - 1


class Unbatched(CountedModel):
    def __call__(self, tokens: mx.array, **options: Any) -> mx.array:
        if tokens.shape[0] > 1:
            raise ValueError("one row only")
        return super().__call__(tokens, **options)


def verdict_of(model: Any) -> bool | None:
    *_, verdict = check_batching(model)
    return verdict


def test_running_rows_wait_for_one_forward_at_a_time() -> None:
    model = CountedModel(loaded("tiny-qwen3").model)
    calls = [model.num_calls for _ in check_batching(model)]
    assert calls[-1] >= 10
    assert all(later - earlier <= 1 for earlier, later in zip([0, *calls], calls, strict=False))


@pytest.mark.parametrize("kind", [PaddingBlind, Unbatched])
def test_a_family_that_answers_otherwise_in_a_batch_is_found_out(kind: type[CountedModel]) -> None:
    assert verdict_of(kind(loaded("tiny-qwen3").model)) is False


@pytest.mark.parametrize(
    "name", ["tiny-qwen3", "tiny-gemma3", "tiny-qwen3-next", "tiny-mamba", "tiny-gpt-oss"]
)
def test_families_with_a_batch_form_may_batch(name: str) -> None:
    assert verdict_of(loaded(name).model) is True


def test_a_family_without_a_batch_form_is_not_even_run() -> None:
    model = CountedModel(loaded("tiny-llama4").model)
    assert verdict_of(model) is False
    assert model.num_calls == 0
