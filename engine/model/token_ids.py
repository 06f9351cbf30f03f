"""Which spellings are tokens, without the vocabulary as a dict: a large one takes 0.2 s, and the
interpreter with it.
"""

from __future__ import annotations

from typing import Any


def ids_of(tokenizer: Any, *spellings: str) -> dict[str, int]:
    """Of those that are tokens; what is none has the id of the unknown token, or no id."""
    ids = {one: tokenizer.convert_tokens_to_ids(one) for one in spellings}
    return {
        one: token_id
        for one, token_id in ids.items()
        if token_id is not None and tokenizer.convert_ids_to_tokens(token_id) == one
    }
