"""What a model's folder says of its tokens, and of which model it is. It loads nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.sizing.text_config import DEFAULT_CONTEXT_TOKENS, context_limit, text_config

_SAMPLE_BYTES = 64 * 1024
_NUM_SAMPLES = 16  # of each file of weights
_DESCRIBING = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


class UnreadableModel(Exception):
    """The message says which file is missing, or what in it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """`words`: those that are nothing but text. `ends`: those that end an answer."""

    words: tuple[int, ...]
    ends: tuple[int, ...]
    context_limit: int


def tokens_of(folder: Path) -> Tokens:
    """Raises UnreadableModel."""
    config = _read(folder / "config.json")
    if config is None:
        raise UnreadableModel(f"{folder / 'config.json'} cannot be read.")
    tokenizer = _read(folder / "tokenizer.json") or {}
    size = text_config(config).get("vocab_size") or config.get("vocab_size")
    if not isinstance(size, int) or size < 2:
        raise UnreadableModel(f"{folder / 'config.json'} says no vocab_size.")
    special = {one["id"]: one.get("content") for one in tokenizer.get("added_tokens", ())}
    return Tokens(
        words=tuple(one for one in range(size) if one not in special) or tuple(range(size)),
        ends=tuple(sorted({one for one in _ends(folder, config, special) if 0 <= one < size})),
        context_limit=context_limit(config) or DEFAULT_CONTEXT_TOKENS,
    )


def fingerprint_of(folder: Path) -> str:
    """The same for the same files, as far as samples of the weights tell; "" where they cannot be
    read. All of some hundred GB would take minutes."""
    digest = hashlib.sha256()
    try:
        for path in sorted({*(folder / name for name in _DESCRIBING), *_weights(folder)}):
            if path.is_file():
                digest.update(f"{path.name} {path.stat().st_size}\n".encode())
                for sample in _samples(path):
                    digest.update(sample)
    except OSError:
        return ""
    return digest.hexdigest()[:16]


def quantisation_of(folder: Path) -> str:
    """In words: how the weights are stored."""
    config = _read(folder / "config.json") or {}
    quantised = config.get("quantization")
    if isinstance(quantised, dict) and isinstance(quantised.get("bits"), int):
        return f"{quantised['bits']} bits, groups of {quantised.get('group_size', '?')}"
    kind = text_config(config).get("torch_dtype") or text_config(config).get("dtype")
    return str(kind or "not told")[:40]


def _ends(folder: Path, config: dict[str, Any], special: dict[int, Any]) -> Iterator[int]:
    """Wherever models name them."""
    generation = _read(folder / "generation_config.json") or {}
    for told in (config, text_config(config), generation):
        ends = told.get("eos_token_id")
        yield from (one for one in (ends if isinstance(ends, list) else [ends]) if _is_id(one))
    name = (_read(folder / "tokenizer_config.json") or {}).get("eos_token")
    name = name.get("content") if isinstance(name, dict) else name
    yield from (number for number, content in special.items() if content and content == name)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _weights(folder: Path) -> Iterator[Path]:
    return folder.glob("[!.]*.safetensors")


def _samples(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= _SAMPLE_BYTES * _NUM_SAMPLES:
            yield file.read()
            return
        for number in range(_NUM_SAMPLES):
            file.seek((size - _SAMPLE_BYTES) * number // (_NUM_SAMPLES - 1))
            yield file.read(_SAMPLE_BYTES)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
