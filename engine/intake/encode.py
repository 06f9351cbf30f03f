"""Text to token ids, so that what a person writes never becomes a control token.

A template's own text may spell control tokens; text from people may not. Their spellings are broken
by a marker before the template runs; the rendered text is cut at the markers and encoded in pieces.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import tokenizers

from engine.intake.fill_in_middle import Layout
from engine.intake.messages import Arguments, Message
from engine.intake.piece_cache import PieceCache
from engine.intake.seams import Seams

FOREIGN_ROLES = frozenset({"user", "tool"})
_BRACKETED = re.compile(r"<[^<>\n]{1,80}>")
_LOOKS_LIKE_CONTROL = re.compile(r"<\S+>|\[/?[A-Z_]+\]")
# Of private use, and of planes where no character is: no template has one
_UNWRITTEN = (range(0xE000, 0xF900), range(0xF0000, 0x110000), range(0x40000, 0xE0000))
_SLICE_CHARACTERS = 65_536
_SUSPICIOUS_CHARACTERS_PER_TOKEN = 8


class TooManyTokens(Exception):
    """The text is longer than it may be. An estimate: counting stopped early at `num_tokens`."""

    def __init__(self, num_tokens: int, *, is_estimate: bool = False) -> None:
        super().__init__(num_tokens)
        self.num_tokens = num_tokens
        self.is_estimate = is_estimate


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a template gets. `marker` stands where a spelling of a control token was broken."""

    messages: list[Message]
    tools: list[Message]
    options: dict[str, Any]
    marker: str = ""


class Encoder:
    """One model's tokenizer. `template_source` tells which plain tokens a template controls by."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, *, template_source: str) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder().values()
        self._special = frozenset(token.content for token in added if token.special)
        self._control = self._special | {
            token.content
            for token in added
            if _LOOKS_LIKE_CONTROL.fullmatch(token.content) and token.content in template_source
        }
        self._seams = Seams(
            tokenizer, frozenset(one for one in self._control if one in template_source)
        )
        self.pieces = PieceCache()
        self._is_normalizing = tokenizer.normalizer is not None and any(
            token.normalized for token in added if token.content in self._control
        )

    def break_spellings(self, said: Conversation) -> Conversation:
        """Special tokens in anybody's text; in a user's and a tool's the template's others too.

        The model's own former words keep those: templates cut reasoning and calls out of them.
        """
        everything: list[Any] = [said.messages, said.tools, said.options]
        marker = _unused_character(_texts(everything))
        if self._is_normalizing:
            everything = _map_texts(everything, self._revealed)
        messages, tools, options = everything
        present = self._present(_texts(everything))
        in_own = _breaker(present & self._special, marker)
        in_foreign = _breaker(present, marker)
        return Conversation(
            messages=[
                _map_texts(one, in_foreign if one["role"] in FOREIGN_ROLES else in_own)
                for one in messages
            ],
            tools=_map_texts(tools, in_own),
            options=_map_texts(options, in_foreign),
            marker=marker,
        )

    def controls_in(self, template_source: str) -> dict[str, int]:
        """The control tokens that this template spells, with their ids."""
        ids = ((one, self._tokenizer.token_to_id(one)) for one in self._control)
        return {one: found for one, found in ids if found is not None and one in template_source}

    def encode_recurring(
        self, text: str, *, marker: str, max_tokens: int, whose: str
    ) -> tuple[int, ...]:
        """A text that may come again with another end: only what `whose` has not sent a moment ago
        is tokenized. Raises TooManyTokens, at once when it is far too long."""
        pieces = [piece for piece in text.split(marker) if piece]
        self._check_characters(pieces, max_tokens)
        parts = [part for piece in pieces for part in self._seams.parts(piece)]
        known = {part: self.pieces.find(whose, part) for part in parts}
        new = [part for part, token_ids in known.items() if token_ids is None]
        encodings = self._tokenizer.encode_batch_fast(new, add_special_tokens=False)
        for part, encoding in zip(new, encodings, strict=True):
            known[part] = self.pieces.keep(whose, part, encoding.ids)
        return _within(max_tokens, chain.from_iterable(known[part] or () for part in parts))

    def encode_broken(self, text: str, *, marker: str, max_tokens: int) -> tuple[int, ...]:
        """A text that is not expected again. Raises TooManyTokens."""
        pieces = [piece for piece in text.split(marker) if piece]
        return self._encode(pieces, max_tokens=max_tokens, add_special_tokens=False)

    def encode_prompt(self, prompt: str, *, max_tokens: int) -> tuple[int, ...]:
        """A raw prompt: what spells a token is that token, as for fill-in-the-middle."""
        return self._encode([prompt], max_tokens=max_tokens, add_special_tokens=True)

    def encode_pair(self, first: str, second: str, *, max_tokens: int) -> tuple[int, ...]:
        """Two texts that a model reads together, whatever they spell. Raises TooManyTokens."""
        self._check_characters([first, second], max_tokens)
        marker = _unused_character([first, second])
        if self._is_normalizing:
            first, second = self._revealed(first), self._revealed(second)
        broken = _breaker(self._present([first, second]), marker)
        one, other = (self._plain(broken(text).split(marker)) for text in (first, second))
        return _within(max_tokens, self._tokenizer.post_process(one, other).ids)

    def _plain(self, pieces: list[str]) -> tokenizers.Encoding:
        encodings = self._tokenizer.encode_batch_fast(pieces, add_special_tokens=False)
        return tokenizers.Encoding.merge(encodings)

    def encode_fill_in_middle(
        self, layout: Layout, *, prefix: str, suffix: str, max_tokens: int, whose: str
    ) -> tuple[int, ...]:
        """Both texts are text, whatever they spell; only the layout's own tokens control."""
        marker = _unused_character([prefix, suffix])
        if self._is_normalizing:
            prefix, suffix = self._revealed(prefix), self._revealed(suffix)
        broken = _breaker(self._present([prefix, suffix]), marker)
        # What the tokenizer puts before every text: a beginning, or nothing.
        token_ids = tuple(self._tokenizer.encode("").ids[:1])
        for control, text in layout.pieces(broken(prefix), broken(suffix)):
            token_ids += (self.token_id(control) or 0,)
            token_ids += self.encode_recurring(
                text, marker=marker, max_tokens=max_tokens, whose=whose
            )
        return _within(max_tokens, token_ids)

    def token_id(self, spelling: str) -> int | None:
        token_id: int | None = self._tokenizer.token_to_id(spelling)
        return token_id

    def _encode(
        self, pieces: list[str], *, max_tokens: int, add_special_tokens: bool
    ) -> tuple[int, ...]:
        self._check_characters(pieces, max_tokens)
        encodings = self._tokenizer.encode_batch_fast(pieces, add_special_tokens=add_special_tokens)
        return _within(max_tokens, chain.from_iterable(one.ids for one in encodings))

    def _check_characters(self, pieces: list[str], max_tokens: int) -> None:
        if sum(map(len, pieces)) > max_tokens * _SUSPICIOUS_CHARACTERS_PER_TOKEN:
            self._check_roughly(pieces, 2 * max_tokens)

    def _check_roughly(self, pieces: list[str], max_tokens: int) -> None:
        """Count in slices, which may split a token, until it is clearly too much."""
        num_tokens = 0
        for piece in pieces:
            for start in range(0, len(piece), _SLICE_CHARACTERS):
                part = piece[start : start + _SLICE_CHARACTERS]
                (encoding,) = self._tokenizer.encode_batch_fast([part], add_special_tokens=False)
                num_tokens += len(encoding.ids)
                if num_tokens > max_tokens:
                    raise TooManyTokens(num_tokens, is_estimate=True)

    def _present(self, texts: Iterable[str]) -> frozenset[str]:
        """Control spellings that occur. Bracketed ones are looked up: there may be thousands."""
        joined = "\n".join(texts)
        found = {match for match in _BRACKETED.findall(joined) if match in self._control}
        odd = (one for one in self._control if not _BRACKETED.fullmatch(one))
        return frozenset(found | {one for one in odd if one in joined})

    def _revealed(self, text: str) -> str:
        """The normalized text if a control token comes to light in it."""
        normalized: str = self._tokenizer.normalizer.normalize_str(text)
        return normalized if self._present([normalized]) else text


def _within(max_tokens: int, token_ids: Iterable[int]) -> tuple[int, ...]:
    """Raises TooManyTokens."""
    all_of_them = tuple(token_ids)
    if len(all_of_them) > max_tokens:
        raise TooManyTokens(len(all_of_them))
    return all_of_them


def _breaker(spellings: frozenset[str], marker: str) -> Callable[[str], str]:
    if not spellings:
        return lambda text: text
    longest_first = sorted(spellings, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))

    def broken(match: re.Match[str]) -> str:
        spelling = match[0]
        return (
            spelling[0] + marker + spelling[1:]
            if len(spelling) > 1
            else "\N{REPLACEMENT CHARACTER}"
        )

    def break_all(text: str) -> str:
        # Once more after each round: the rest of a broken spelling may spell another.
        while pattern.search(text):
            text = pattern.sub(broken, text)
        return text

    return break_all


def _unused_character(texts: Iterable[str]) -> str:
    """Raises TooManyTokens for a text that has them all."""
    used = set().union(*texts)
    for code in chain.from_iterable(_UNWRITTEN):
        if chr(code) not in used:
            return chr(code)
    raise TooManyTokens(len(used), is_estimate=True)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        if isinstance(value, Arguments):
            yield value.source
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_map_texts(inner, change) for inner in value]
    if not isinstance(value, dict):
        return value
    mapped = {change(name): _map_texts(inner, change) for name, inner in value.items()}
    if isinstance(value, Arguments):
        return Arguments(mapped, source=change(value.source))
    return mapped
