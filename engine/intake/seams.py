"""Where a rendered conversation may be cut so that its parts have the tokens of the whole.

A tokenizer looks for added tokens first and splits at them; what is between two never sees what is
beyond. So before a control token of the template the text may be cut, unless the token takes in
what is before it, or another one may begin there. What is left most tokenizers split into words
before they look for tokens: there it may be cut before the blank between two of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import chain, product

import tokenizers
from tokenizers import AddedToken

PART_CHARACTERS = 256  # at least, but for the last part
_PROBES = ("Probe  one\n\n", " \n two.\tThree")
_BLANK = "(?<=[A-Za-z]) (?=[A-Za-z])"
_BEFORE_BLANKS = (
    *("a", "The", "don't", "We'LL", "x1y", "3rd", "\n\nfoo", "  bar", "\tq", " .baz", "(un", "_b"),
    *("--an", "HTTPServer", "mcDon", "nai\u0308ve", "\u65e5\u672cx", "\u00c5E", "'s", "1,000a"),
)
_BEHIND_BLANKS = (
    *(" a", " The", " don't", " LL", " s", " x1", " Q\n", " b  c", " q.", " mcDon", " A-b", " i,"),
    *(" e\u0301", " n\u65e5", " HTTPServer\n\n", " a1b2", " o'clock", " f(x)", " z\t", " w "),
)


class Seams:
    """Of one tokenizer; `controls` are spellings that its template uses."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, controls: Collection[str]) -> None:
        added = {one.content: one for one in tokenizer.get_added_tokens_decoder().values()}
        seams = [
            spelling
            for spelling in sorted(controls & added.keys(), key=len, reverse=True)
            if _stands_alone(added[spelling]) and not _is_entered(spelling, added.keys())
        ]
        patterns = list(map(re.escape, seams)) if _is_same(tokenizer, seams) else []
        if _splits_at_blanks(tokenizer, added.values()):
            patterns.append(_BLANK)
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def parts(self, text: str) -> list[str]:
        """They are `text`, one after the other. A longer text begins with the same parts but for
        the last."""
        starts, pattern = [0], self._pattern
        while pattern and (found := pattern.search(text, starts[-1] + PART_CHARACTERS)):
            starts.append(found.start())
        return [text[start:stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]


def _stands_alone(token: AddedToken) -> bool:
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


def _splits_at_blanks(tokenizer: tokenizers.Tokenizer, added: Iterable[AddedToken]) -> bool:
    """Whether a blank between letters begins a word, whatever is around it: a look at what every
    tokenizer in use does, on every tokenizer."""
    if tokenizer.pre_tokenizer is None or any(map(_may_hold_a_blank, added)):
        return False
    if tokenizer.normalizer is not None and any(one.normalized for one in added):
        return False
    words = {text: _words(tokenizer, text) for text in (*_BEFORE_BLANKS, *_BEHIND_BLANKS)}
    return all(
        _words(tokenizer, before + behind) == words[before] + words[behind]
        for before, behind in product(_BEFORE_BLANKS, _BEHIND_BLANKS)
    )


def _may_hold_a_blank(token: AddedToken) -> bool:
    strips = token.lstrip or token.rstrip or token.single_word
    return strips or bool(re.search("[A-Za-z] ", token.content))


def _words(tokenizer: tokenizers.Tokenizer, text: str) -> list[str]:
    """As its model gets them."""
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
