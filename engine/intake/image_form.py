"""How a family writes images into a prompt: what its template puts for one, and what that becomes.

    template's text      ... <start_of_image> ...
    written              ... \\n\\n<start_of_image><image_soft_token><end_of_image>\\n\\n ...
    tokens, expanded     ... 108 255999 262144 262144 ... 262144 256000 108 ...

Between text and tokens one token stands for each image, so that what is known of the text's tokens
is known whatever is shown. It does not know pixels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tokenizers

_BEGIN_ID, _END_ID, _IMAGE_ID = 255_999, 256_000, 262_144  # Gemma 3's own
_NUM_TOKENS = 256
_IMAGE_SIZE = 224


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImageForm:
    """`placeholder`: what the template writes for an image; `written`: what the model reads there,
    the token of `token_id` once for `num_tokens`. `size`: of its pixels, each side."""

    placeholder: str
    written: str
    token_id: int
    num_tokens: int
    size: int
    resample: int

    def write(self, rendered: str) -> str:
        return rendered.replace(self.placeholder, self.written)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expanded:
    """A prompt's tokens with all of its images', which begin at `starts`."""

    token_ids: tuple[int, ...]
    starts: tuple[int, ...]
    form: ImageForm

    def position(self, before: int) -> int:
        """Where a token is that was at `before` while one stood for each image."""
        more = self.form.num_tokens - 1
        return before + more * sum(start - more * n < before for n, start in enumerate(self.starts))


def gemma3_form(
    config: dict[str, Any], settings: dict[str, Any], tokenizer: tokenizers.Tokenizer
) -> ImageForm | None:
    """None where the tokenizer has no tokens for it."""
    token_id = config.get("image_token_index", _IMAGE_ID)
    ids = (
        config.get("boi_token_index", _BEGIN_ID),
        token_id,
        config.get("eoi_token_index", _END_ID),
    )
    begin, image, end = (tokenizer.id_to_token(one) for one in ids)
    if begin is None or image is None or end is None:
        return None
    return ImageForm(
        placeholder=begin,
        written=f"\n\n{begin}{image}{end}\n\n",
        token_id=token_id,
        num_tokens=config.get("mm_tokens_per_image") or _NUM_TOKENS,
        size=config["vision_config"].get("image_size", _IMAGE_SIZE),
        resample=settings.get("resample", 2),
    )


def expand(token_ids: Sequence[int], form: ImageForm) -> Expanded:
    expanded: list[int] = []
    starts: list[int] = []
    for token_id in token_ids:
        if token_id == form.token_id:
            starts.append(len(expanded))
            expanded += [token_id] * form.num_tokens
        else:
            expanded.append(token_id)
    return Expanded(token_ids=tuple(expanded), starts=tuple(starts), form=form)
