"""Prompts with images, as intake hands them over, and as the reference reads them."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from engine import wire
from engine.core.pixels import Pixels, pack
from tests.tiny_sights import IMAGE_ID, IMAGE_SIZE, NUM_TOKENS


class Prompt(NamedTuple):
    """`fields` are those of a Work; `seen` what its images are, each where it begins."""

    fields: dict[str, Any]
    seen: list[tuple[int, Pixels]]

    @property
    def token_ids(self) -> list[int]:
        return list(self.fields["prompt_token_ids"])


def picture(seed: int) -> Pixels:
    """No two look alike, nor do two parts of one."""
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8)


def prompt_of(*parts: int | list[int] | Pixels) -> Prompt:
    """Of so many text tokens, of these tokens, and images."""
    token_ids: list[int] = []
    images: list[wire.PromptImage] = []
    pixels: dict[str, bytes] = {}
    seen: list[tuple[int, Pixels]] = []
    for place, part in enumerate(parts):
        if isinstance(part, np.ndarray):
            digest = hashlib.sha256(part.tobytes()).hexdigest()
            start = len(token_ids)
            images.append(wire.PromptImage(start=start, num_tokens=NUM_TOKENS, digest=digest))
            pixels[digest] = pack(part)
            seen.append((start, part))
            token_ids += [IMAGE_ID] * NUM_TOKENS
        elif isinstance(part, int):
            token_ids += text(part, salt=place)
        else:
            token_ids += part
    fields = {"prompt_token_ids": tuple(token_ids), "images": tuple(images), "pixels": pixels}
    return Prompt(fields, seen)


def text(length: int, *, salt: int = 0) -> list[int]:
    return [10 + (at * 7919 + salt * 104729 + at * at) % 3900 for at in range(length)]
