"""How models are asked to fill in the middle: which control tokens, in which order.

Taken from the models' own descriptions. It does not encode anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Control tokens, with the two texts between them."""

    before_prefix: str
    before_suffix: str
    before_middle: str | None
    suffix_comes_first: bool = False

    @property
    def control(self) -> tuple[str, ...]:
        one = self.before_middle
        return (self.before_prefix, self.before_suffix, *((one,) if one is not None else ()))

    def pieces(self, prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
        """(control token, text after it) in the model's order."""
        first, second = (self.before_prefix, prefix), (self.before_suffix, suffix)
        yield from (second, first) if self.suffix_comes_first else (first, second)
        if self.before_middle is not None:
            yield self.before_middle, ""


# The first whose tokens the vocabulary has is the model's.
_LAYOUTS = (
    # Qwen-Coder, CodeGemma, Granite 4
    Layout(
        before_prefix="<|fim_prefix|>",
        before_suffix="<|fim_suffix|>",
        before_middle="<|fim_middle|>",
    ),
    # StarCoder, Granite Code, SmolLM, Mellum
    Layout(
        before_prefix="<fim_prefix>", before_suffix="<fim_suffix>", before_middle="<fim_middle>"
    ),
    # SantaCoder
    Layout(
        before_prefix="<fim-prefix>", before_suffix="<fim-suffix>", before_middle="<fim-middle>"
    ),
    # DeepSeek-Coder: the hole stands where the middle belongs, the end asks for it
    Layout(
        before_prefix="<\uff5cfim\u2581begin\uff5c>",
        before_suffix="<\uff5cfim\u2581hole\uff5c>",
        before_middle="<\uff5cfim\u2581end\uff5c>",
    ),
    # Seed-Coder
    Layout(
        before_prefix="<[fim-prefix]>",
        before_suffix="<[fim-suffix]>",
        before_middle="<[fim-middle]>",
        suffix_comes_first=True,
    ),
    # Code Llama
    Layout(before_prefix="\u2581<PRE>", before_suffix="\u2581<SUF>", before_middle="\u2581<MID>"),
    # Codestral
    Layout(
        before_prefix="[PREFIX]",
        before_suffix="[SUFFIX]",
        before_middle=None,
        suffix_comes_first=True,
    ),
)


def find_layout(token_id: Callable[[str], int | None]) -> Layout | None:
    """None for a model that has no such tokens."""
    for layout in _LAYOUTS:
        if all(token_id(one) is not None for one in layout.control):
            return layout
    return None
