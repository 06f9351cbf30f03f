"""Fixtures of intake's tests: a small model folder without weights, and the door before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, pre_tokenizers

from engine import wire
from engine.intake.door import Door
from engine.intake.model_folder import Library
from tests.makers import make_generate

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CONTROL = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>")
LIMIT_TOKENS = 512
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'tool' %}{{- '<tool_response>' }}{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string
    else call.function.arguments | tojson }}
{{- '}</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- for tool in tools or [] %}{{- tool | tojson }}{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking %}{{- '<think>\\n' }}{%- endif %}
{%- endif %}
"""

MakeFolder = Callable[..., Path]
Check = Callable[..., wire.Work]


def make_tokenizer() -> tokenizers.Tokenizer:
    """One token per byte, and the control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE(vocab={one: i for i, one in enumerate(alphabet)}, merges=[])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens(list(CONTROL))
    return tokenizer


@pytest.fixture
def make_folder(tmp_path: Path) -> MakeFolder:
    def make(
        *,
        template: Any = TEMPLATE,
        config: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
        tokenizer: tokenizers.Tokenizer | None = None,
    ) -> Path:
        tokenizer = tokenizer or make_tokenizer()
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        (tmp_path / "config.json").write_text(
            json.dumps(config or {"max_position_embeddings": LIMIT_TOKENS, "vocab_size": 300})
        )
        (tmp_path / "tokenizer_config.json").write_text(
            json.dumps({"eos_token": "<|im_end|>", "chat_template": template} | (settings or {}))
        )
        return tmp_path

    return make


@pytest.fixture
def folder(make_folder: MakeFolder) -> Path:
    return make_folder()


@pytest.fixture
def door() -> Door:
    return Door(Library())


@pytest.fixture
def check(door: Door, tmp_path: Path) -> Check:
    """Check a request against the folder. Raises Refusal."""

    def check(
        *,
        context_limit_tokens: int | None = None,
        finds_boundaries: bool = True,
        **changes: Any,
    ) -> wire.Work:
        spec = wire.ModelSpec(
            name="demo", path=str(tmp_path), context_limit_tokens=context_limit_tokens
        )
        generate = make_generate("a", **changes)
        return door.check(generate, spec, finds_boundaries=finds_boundaries)

    return check


@pytest.fixture
def text_of(check: Check, folder: Path) -> Callable[..., str]:
    """What the model would read of a conversation: its tokens as text."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

    def text_of(*messages: dict[str, Any], **changes: Any) -> str:
        work = check(messages=messages, **changes)
        text: str = tokenizer.decode(work.prompt_token_ids, skip_special_tokens=False)
        return text

    return text_of
