"""What intake needs of a model's folder: its template, tokenizer and limits, and whether it reads
images. Never its weights.

Folders are read once and again when their files change. It does not know requests.
"""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path
from typing import Any

import tokenizers

from engine.core.encoder_config import is_cross_encoder, is_encoder, most_positions
from engine.intake.encode import Encoder
from engine.intake.image_form import gemma3_form
from engine.intake.images import new_album
from engine.intake.recent import KEEP_SECONDS
from engine.intake.template import Template, TemplateRefused
from engine.sizing.images import processor_settings, sees
from engine.sizing.text_config import DEFAULT_CONTEXT_TOKENS, context_limit, text_config

_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "sentence_bert_config.json",
    "preprocessor_config.json",
    "processor_config.json",
)
MAX_FOLDERS = 8


class FolderUnusable(Exception):
    """A model's folder lacks something."""


class ModelFolder:
    """Read from `path` as it is now. Raises FolderUnusable."""

    def __init__(self, path: Path) -> None:
        config = _read_json(path / "config.json")
        text = text_config(config)
        settings = _read_json(path / "tokenizer_config.json", is_optional=True)
        tokenizer = _read_tokenizer(path / "tokenizer.json")
        self.limit_tokens = context_limit(config) or DEFAULT_CONTEXT_TOKENS
        self.is_cross_encoder = is_cross_encoder(config)
        if is_encoder(config):
            self.limit_tokens = _encoder_limit(path, config)
        self.vocabulary_size = int(
            text.get("vocab_size")
            or config.get("vocab_size")
            or tokenizer.get_vocab_size(with_added_tokens=True)
        )
        hidden_size = text.get("hidden_size") or config.get("hidden_size")
        self.hidden_size = hidden_size if isinstance(hidden_size, int) else None
        # None: it reads no images
        self.image_form = (
            gemma3_form(config, processor_settings(path), tokenizer) if sees(path, config) else None
        )
        self.album = new_album()
        special = _special_tokens(
            _read_json(path / "special_tokens_map.json", is_optional=True) | settings
        )
        self._templates = {
            name: _compile(source, special) for name, source in _template_sources(path, settings)
        }
        self.encoder = Encoder(
            tokenizer, template_source="".join(one.source for one in self._templates.values())
        )

    def template(self, *, has_tools: bool) -> Template | None:
        """None when the model has no chat template."""
        if has_tools and "tool_use" in self._templates:
            return self._templates["tool_use"]
        return self._templates.get("default")


class Library:
    """The folders read last. Used by one thread."""

    def __init__(self) -> None:
        self._folders: collections.OrderedDict[tuple[object, ...], ModelFolder] = (
            collections.OrderedDict()
        )

    def folder(self, path: str) -> ModelFolder:
        """Raises FolderUnusable."""
        key = (path, *(_modified_at(os.path.join(path, name)) for name in _FILES))
        if key not in self._folders:
            self._folders[key] = ModelFolder(Path(path))
        self._folders.move_to_end(key)
        while len(self._folders) > MAX_FOLDERS:
            self._folders.popitem(last=False)
        return self._folders[key]

    def forget_texts(self, *, at_once: bool) -> None:
        """And images. Those that nobody has sent for a while, or all."""
        unused_seconds = 0.0 if at_once else KEEP_SECONDS
        for folder in self._folders.values():
            folder.encoder.pieces.forget(unused_seconds=unused_seconds)
            folder.album.forget(unused_seconds=unused_seconds)


def _modified_at(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _read_json(path: Path, *, is_optional: bool = False) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if is_optional:
            return {}
        raise FolderUnusable(f"it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise FolderUnusable(f"its {path.name} cannot be read") from error
    if not isinstance(read, dict):
        raise FolderUnusable(f"its {path.name} holds no object")
    return read


def _read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    if not path.exists():
        raise FolderUnusable(f"it has no {path.name}")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise FolderUnusable(f"its {path.name} cannot be read") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _encoder_limit(path: Path, config: dict[str, Any]) -> int:
    """No more than its positions; fewer where its authors say so."""
    advised = _read_json(path / "sentence_bert_config.json", is_optional=True)
    limits = (most_positions(config), advised.get("max_seq_length"))
    return min((one for one in limits if isinstance(one, int)), default=DEFAULT_CONTEXT_TOKENS)


def _special_tokens(settings: dict[str, Any]) -> dict[str, str]:
    """bos_token, eos_token and their like, which templates may name."""
    named = {}
    for name, value in settings.items():
        content = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(content, str):
            named[name] = content
    return named


def _template_sources(path: Path, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, source) of each template; the file of its own wins."""
    own_file = path / "chat_template.jinja"
    if own_file.exists():
        return [("default", own_file.read_text("utf-8"))]
    template = settings.get("chat_template")
    if isinstance(template, str):
        return [("default", template)]
    if isinstance(template, list):
        return [(one["name"], one["template"]) for one in template]
    return []


def _compile(source: str, special_tokens: dict[str, str]) -> Template:
    try:
        return Template(source, special_tokens=special_tokens)
    except TemplateRefused as error:
        raise FolderUnusable(str(error)) from error
