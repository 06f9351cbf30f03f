"""Where a rendered conversation may be cut so that its parts have the tokens of the whole.

A tokenizer looks for added tokens first and splits at them; what is between two never sees what is
beyond. So before a control token of the template the text may be cut, unless the token takes in
what is before it, or another one may begin there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain

import tokenizers

PART_CHARACTERS = 256  # at least, but for the last part
_PROBES = ("Probe  one\n\n", " \n two.\tThree")


class Seams:
    """Of one tokenizer; `controls` are spellings that its template uses."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, controls: Collection[str]) -> None:
        added = {one.content: one for one in tokenizer.get_added_tokens_decoder().values()}
        seams = [
            spelling
            for spelling in sorted(controls & added.keys(), key=len, reverse=True)
            if _stands_alone(added[spelling]) and not _is_entered(spelling, added.keys())
        ]
        self._pattern = re.compile("|".join(map(re.escape, seams))) if seams else None
        if self._pattern is not None and not _is_same(tokenizer, seams):
            self._pattern = None

    def parts(self, text: str) -> list[str]:
        """They are `text`, one after the other. A longer text begins with the same parts but for
        the last."""
        starts = [0]
        for found in self._pattern.finditer(text) if self._pattern else ():
            if found.start() - starts[-1] >= PART_CHARACTERS:
                starts.append(found.start())
        return [text[start:stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]


def _stands_alone(token: tokenizers.AddedToken) -> bool:
    return not (token.lstrip or token.single_word or token.normalized)


def _is_entered(spelling: str, others: Collection[str]) -> bool:
    """Whether another token may have begun before this one does."""
    beginnings = tuple(spelling[:end] for end in range(1, len(spelling)))
    return any(
        other.find(spelling, 1) > 0 or (other != spelling and other.endswith(beginnings))
        for other in others
    )


def _is_same(tokenizer: tokenizers.Tokenizer, seams: list[str]) -> bool:
    """A look at what is promised, on every tokenizer. One that cannot read it is not cut."""
    before, after = _PROBES
    parts = [before, *(seam + after for seam in seams)]
    try:
        encodings = tokenizer.encode_batch_fast(["".join(parts), *parts], add_special_tokens=False)
    except Exception:  # the library raises plain Exception
        return False
    whole, *others = (one.ids for one in encodings)
    return whole == list(chain.from_iterable(others))
