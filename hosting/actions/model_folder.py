"""Reads what a model folder says of itself. It loads nothing and knows no rows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TypeGuard

from engine.sizing.images import sees
from engine.sizing.text_config import context_limit

_MOST_TOKENS = 2**31  # more is no length but a mistake
_SHOWN = 200  # letters of a path in a refusal
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
_THINKING_MARKS = ("<think>", "enable_thinking", "<|channel|>analysis")


class NotAModelFolder(Exception):
    """This folder does not hold an MLX model."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FolderDescription:
    """`sampling`: those of temperature, top_p, top_k and min_p that the authors advise."""

    path: str
    kind: str
    weight_bytes: int
    context_limit_tokens: int | None
    supports_thinking: bool
    supports_tools: bool
    supports_images: bool
    sampling: dict[str, float]


def describe_folder(path: Path) -> FolderDescription:
    """Raises NotAModelFolder, whose message says what is missing."""
    try:
        return _describe(path.expanduser().resolve())
    except (OSError, RuntimeError) as error:  # too long a name, no right to look, nobody's ~
        raise NotAModelFolder(f"{str(path)[:_SHOWN]} cannot be read: {_reason(error)}") from error


def _describe(path: Path) -> FolderDescription:
    if not path.is_dir():
        raise NotAModelFolder(f"{path} is not a folder")
    config = _read_json(path / "config.json")
    if not config:
        raise NotAModelFolder(f"{path} has no readable config.json")
    weights = list(path.glob("[!.]*.safetensors"))
    if not weights:
        raise NotAModelFolder(f"{path} has no *.safetensors weights")
    template = _chat_template(path)
    return FolderDescription(
        path=str(path),
        kind=_kind(path, config),
        weight_bytes=sum(file.stat().st_size for file in weights),
        context_limit_tokens=context_limit(config),
        supports_thinking=any(mark in template for mark in _THINKING_MARKS),
        supports_tools="tools" in template,
        supports_images=sees(path, config),
        sampling=_sampling(_read_json(path / "generation_config.json")),
    )


def _reason(error: OSError | RuntimeError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _kind(path: Path, config: dict[str, Any]) -> str:
    """The config names what stands on the body: a head that scores, or none. Embedding models that
    were made of others come with sentence-transformers' files, or say it in their name."""
    architectures = config.get("architectures")
    made = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    name = path.name.lower()
    if "rerank" in name or made.endswith("ForSequenceClassification"):
        return "rerank"
    is_embedding = (path / "modules.json").is_file() or (path / "1_Pooling").is_dir()
    is_bare = made.endswith(("Model", "ForMaskedLM")) and not made.endswith("LMHeadModel")
    return "embed" if is_embedding or is_bare or "embedding" in name else "generate"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _chat_template(path: Path) -> str:
    texts = (path / name for name in _TEMPLATE_FILES)
    return "\n".join(
        text.read_text(encoding="utf-8", errors="replace") for text in texts if text.is_file()
    )


def _sampling(config: dict[str, Any]) -> dict[str, float]:
    if config.get("do_sample") is False:
        return {"temperature": 0.0}
    names = ("temperature", "top_p", "top_k", "min_p")
    told = {name: config.get(name) for name in names}
    return {name: value for name, value in told.items() if _is_number(value)}


def _is_number(value: Any) -> TypeGuard[float]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < _MOST_TOKENS  # which NaN is not
