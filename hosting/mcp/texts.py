"""Texts of strangers as every database and every tokenizer takes them."""

from __future__ import annotations

CUT = "[cut here: {left:,} more characters]"


def cleaned(text: str, *, most: int) -> str:
    """Without NUL and halves of characters; of more than `most` characters the rest is counted."""
    whole = text.replace("\x00", "").encode(errors="replace").decode()
    if len(whole) <= most:
        return whole
    return f"{whole[:most]}\n{CUT.format(left=len(whole) - most)}"
