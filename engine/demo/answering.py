"""Asks a model folder questions, many at a time, as plain text. It judges no answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm import batch_generate, load

MODEL_FOLDER = Path(__file__).with_name("model")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A conversation that waits for an answer."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    is_thinking: bool = False
    max_tokens: int = 256


class DemoModel:
    """Loaded through mlx_lm.load and computed in float32, which every device does well."""

    def __init__(self, folder: Path = MODEL_FOLDER) -> None:
        loaded = load(str(folder))
        self.model, self.tokenizer = loaded[0], loaded[1]
        self.model.update(tree_map(lambda array: array.astype(mx.float32), self.model.parameters()))

    def encode(self, prompt: Prompt) -> list[int]:
        ids: list[int] = self.tokenizer.apply_chat_template(
            list(prompt.messages),
            tools=list(prompt.tools) or None,
            add_generation_prompt=True,
            enable_thinking=prompt.is_thinking,
        )
        return ids

    def answer(self, prompts: Sequence[Prompt]) -> list[str]:
        """Continue every prompt greedily, to its end or to its limit of tokens."""
        response = batch_generate(
            self.model,
            self.tokenizer,
            [self.encode(prompt) for prompt in prompts],
            max_tokens=[prompt.max_tokens for prompt in prompts],
        )
        texts: list[str] = response.texts
        return texts
