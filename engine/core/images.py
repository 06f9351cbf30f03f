"""Images among a prompt's tokens: where slices may end, and what the prefix cache calls them.

    tokens   [ text ... | image 1: the same token n times | text ... | image 2 ... | text ... ]

A model may look at all of an image from each of its tokens, so they are computed in one slice. For
the prefix cache each of them has a name, made of what the image shows: no two images have the same,
nor is one a token of the model's. It does not know models.
"""

from __future__ import annotations

import array
import dataclasses
import hashlib
from collections.abc import Sequence

from engine import wire

_NO_TOKEN = 1 << 31  # set in every name; vocabularies are far smaller


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Of one prompt: `num_tokens` from `start` on stand for it. `pixels` as core/pixels.py packs
    them."""

    start: int
    num_tokens: int
    pixels: bytes = dataclasses.field(repr=False)

    @property
    def stop(self) -> int:
        return self.start + self.num_tokens


def images_of(work: wire.Work) -> tuple[Image, ...]:
    """Raises KeyError for one that shows nothing."""
    return tuple(
        Image(start=one.start, num_tokens=one.num_tokens, pixels=work.pixels[one.digest])
        for one in work.images
    )


def named_tokens(work: wire.Work) -> Sequence[int]:
    """The prompt's tokens as the prefix cache knows them."""
    if not work.images:
        return work.prompt_token_ids
    named = array.array("I", work.prompt_token_ids)
    for image in work.images:
        named[image.start : image.start + image.num_tokens] = _names(image)
    return named


def images_within(images: Sequence[Image], start: int, stop: int) -> tuple[Image, ...]:
    """Those of which a token lies there."""
    return tuple(one for one in images if one.start < stop and one.stop > start)


def whole_images(images: Sequence[Image], start: int, stop: int) -> int:
    """Where a slice ends that would go from `start` to `stop`: it takes in one image at most, and
    that to its end."""
    first, *others = images_within(images, start, stop) or (None,)
    if first is None:
        return stop
    if first.stop > stop:
        return first.start if first.start > start else first.stop
    return others[0].start if others else stop


def outside_images(images: Sequence[Image], position: int) -> int:
    """The position, or the beginning of the image that it lies within."""
    cut = images_within(images, position - 1, position + 1)
    return next((one.start for one in cut if one.start < position < one.stop), position)


def _names(image: wire.PromptImage) -> array.array[int]:
    digest = hashlib.shake_256(image.digest.encode()).digest(4 * image.num_tokens)
    return array.array("I", (number | _NO_TOKEN for number in array.array("I", digest)))
