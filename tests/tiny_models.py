"""Small random-weight models in Hugging Face layout, made on demand into a cache folder, and a
large one for accelerators.

`python -m tests.tiny_models [NAME ...]` makes them; `tiny_model_path(NAME)` makes one and says
where. Weights are seeded, so a name means the same model everywhere. Answers are gibberish that
depends on the whole context and never ends by itself: the head's rows of the special tokens are
zero. It does not know what the models are used for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import tiny_harmony, tiny_sights

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
)
END_OF_TEXT_ID, _, IM_END_ID, THINK_ID, END_THINK_ID, TOOL_CALL_ID, _ = range(len(SPECIAL_TOKENS))
CHAT_TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{% endif %}
{{- '# Tools\\n\\nAnswer with <tool_call>{\"name\": ..., \"arguments\": {...}}</tool_call>.\\n' }}
{%- for tool in tools %}{{- tool | tojson + '\\n' }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if not (loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for tool_call in message.tool_calls or [] %}
{%- if tool_call.function %}{% set tool_call = tool_call.function %}{% endif %}
{{- '<tool_call>\\n{\"name\": \"' + tool_call.name + '\", \"arguments\": ' }}
{{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}
{%- endif %}
{%- endif %}
"""
CONTEXT_LIMIT_TOKENS = 16_384


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`module` is a file of mlx_lm.models; `config` its config.json without the vocabulary.
    `end_ids` are of `special_tokens`, the first one the tokenizer's. `sees`: it has a tower, and
    all of these tokens are special."""

    module: str
    config: dict[str, Any]
    special_tokens: tuple[str, ...] = SPECIAL_TOKENS
    end_ids: tuple[int, ...] = (IM_END_ID, END_OF_TEXT_ID)
    chat_template: str = CHAT_TEMPLATE
    vocab_size: int = 4096
    dtype: str = "float32"
    seed: int = 1
    sees: bool = False


def _attention(**changes: Any) -> dict[str, Any]:
    config = {
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "max_position_embeddings": CONTEXT_LIMIT_TOKENS,
        "tie_word_embeddings": False,
    }
    return {**config, **changes}


RECIPES = {
    "tiny-qwen3": Recipe(module="qwen3", config=_attention(model_type="qwen3")),
    "tiny-deep": Recipe(module="qwen3", config=_attention(model_type="qwen3", num_hidden_layers=8)),
    "small-llama": Recipe(
        module="llama",
        vocab_size=8192,
        config=_attention(
            model_type="llama",
            hidden_size=384,
            num_hidden_layers=6,
            intermediate_size=1024,
            num_attention_heads=6,
            head_dim=64,
        ),
    ),
    "tiny-gemma3": Recipe(
        module="gemma3_text",
        config=_attention(
            model_type="gemma3_text",
            num_hidden_layers=4,
            query_pre_attn_scalar=32,
            rope_local_base_freq=10_000.0,
            sliding_window=64,
            sliding_window_pattern=2,
        ),
    ),
    "tiny-qwen3-next": Recipe(
        module="qwen3_next",
        config=_attention(
            model_type="qwen3_next",
            num_hidden_layers=4,
            full_attention_interval=2,
            partial_rotary_factor=0.5,
            linear_num_value_heads=4,
            linear_num_key_heads=2,
            linear_key_head_dim=32,
            linear_value_head_dim=32,
            linear_conv_kernel_dim=4,
            num_experts=4,
            num_experts_per_tok=2,
            decoder_sparse_step=2,
            shared_expert_intermediate_size=64,
            moe_intermediate_size=64,
            mlp_only_layers=[],
            norm_topk_prob=True,
        ),
    ),
    "tiny-mamba": Recipe(
        module="mamba",
        config={
            "model_type": "mamba",
            "hidden_size": 128,
            "intermediate_size": 256,
            "state_size": 8,
            "num_hidden_layers": 2,
            "conv_kernel": 4,
            "use_bias": False,
            "use_conv_bias": True,
            "time_step_rank": 8,
            "tie_word_embeddings": False,
            "max_position_embeddings": CONTEXT_LIMIT_TOKENS,
        },
    ),
    "tiny-llama4": Recipe(
        module="llama4",
        config={
            "model_type": "llama4",
            "text_config": _attention(
                model_type="llama4_text",
                num_hidden_layers=4,
                attention_bias=False,
                attention_chunk_size=64,
                interleave_moe_layer_step=2,
                intermediate_size=128,
                intermediate_size_mlp=256,
                num_experts_per_tok=1,
                num_local_experts=2,
                rope_scaling=None,
                use_qk_norm=True,
            ),
        },
    ),
    "tiny-deepseek-v4.1": Recipe(
        module="deepseek_v41",
        config=_attention(
            model_type="deepseek_v41",
            q_lora_rank=32,
            qk_rope_head_dim=16,
            o_lora_rank=32,
            moe_intermediate_size=64,
            n_routed_experts=4,
            num_experts_per_tok=2,
            scoring_func="sigmoid",
            sliding_window=64,
        ),
    ),
}
HARMONY = "tiny-gpt-oss"
RECIPES[HARMONY] = Recipe(
    module="gpt_oss",
    special_tokens=tiny_harmony.SPECIAL_TOKENS,
    end_ids=(tiny_harmony.RETURN_ID,),
    chat_template=tiny_harmony.CHAT_TEMPLATE,
    config=_attention(
        model_type="gpt_oss",
        num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
        num_experts_per_tok=2,
        num_local_experts=4,
        sliding_window=64,
    ),
)
SEEING = "tiny-gemma3-sight"
RECIPES[SEEING] = Recipe(
    module="gemma3",
    special_tokens=tiny_sights.SPECIAL_TOKENS,
    end_ids=(tiny_sights.END_OF_TURN_ID, tiny_sights.EOS_ID),
    chat_template=tiny_sights.CHAT_TEMPLATE,
    sees=True,
    config={
        **tiny_sights.CONFIG,
        "text_config": _attention(
            model_type="gemma3_text",
            hidden_size=64,
            num_hidden_layers=4,
            query_pre_attn_scalar=32,
            rope_theta=100_000.0,
            rope_local_base_freq=10_000.0,
            sliding_window=64,
            sliding_window_pattern=2,
        ),
    },
)
LARGE = "large-qwen3"
RECIPES[LARGE] = Recipe(
    module="qwen3",
    dtype="bfloat16",
    config=_attention(
        model_type="qwen3",
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=131_072,
        rope_theta=1e6,
    ),
)


def tiny_model_path(name: str) -> Path:
    """The folder of the model `name`, made first where it is missing. Several processes may ask."""
    folder = _cache_folder() / f"{name}-{_recipe_digest()}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    _write_model(unfinished, RECIPES[name])
    try:
        unfinished.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(unfinished)
    return folder


def _cache_folder() -> Path:
    default = Path(__file__).resolve().parent.parent / "data" / "test-models"
    return Path(os.environ.get("HEARTH_TEST_MODELS_DIR", default))


def _recipe_digest() -> str:
    files = (__file__, tiny_harmony.__file__, tiny_sights.__file__)
    sources = (Path(file).read_bytes() for file in files)
    return hashlib.sha256(b"".join(sources)).hexdigest()[:10]


def _write_model(folder: Path, recipe: Recipe) -> None:
    vocab_size = _write_tokenizer(folder, recipe)
    config = {**recipe.config, "eos_token_id": list(recipe.end_ids)}
    config.get("text_config", config)["vocab_size"] = vocab_size
    if recipe.sees:
        config["vocab_size"] = vocab_size
        tiny_sights.write_sight(folder, text_size=config["text_config"]["hidden_size"])
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    _write_weights(folder / "model.safetensors", recipe, config)


def _write_weights(path: Path, recipe: Recipe, config: dict[str, Any]) -> None:
    import mlx.core as mx

    mx.random.seed(recipe.seed)
    architecture = importlib.import_module(f"mlx_lm.models.{recipe.module}")
    model = architecture.Model(architecture.ModelArgs.from_dict(config))
    weights = spread_weights(model, num_special=len(recipe.special_tokens))
    dtype = getattr(mx, recipe.dtype)
    weights = {name: array.astype(dtype) for name, array in weights.items()}
    mx.save_safetensors(str(path), weights, {"format": "mlx"})
    del model, weights
    mx.clear_cache()  # who made a large one may be about to measure it


def spread_weights(model: Any, *, num_special: int) -> dict[str, Any]:
    """Wide logit gaps, for the order of a sum must not decide an argmax; no special tokens."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    weights = dict(tree_flatten(model.parameters()))
    for name in weights:
        if name == "lm_head":  # made of zeros
            weights[name] = mx.random.normal(weights[name].shape)
            weights[name][:num_special] = 0
        elif name.endswith("lm_head.weight"):
            weights[name] = weights[name] * 8
            weights[name][:num_special] = 0
        elif name.endswith("sinks"):
            weights[name] = mx.random.normal(weights[name].shape)
    return weights


def _write_tokenizer(folder: Path, recipe: Recipe) -> int:
    """A byte-level BPE tokenizer trained on generated text; returns its real size."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocab_size,
        special_tokens=[
            AddedToken(one, special=recipe.sees or one[1] == "|") for one in recipe.special_tokens
        ],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_training_text(), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": recipe.special_tokens[recipe.end_ids[0]],
        "pad_token": recipe.special_tokens[0],
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT_LIMIT_TOKENS,
        "chat_template": recipe.chat_template,
        **({"bos_token": "<bos>"} if recipe.sees else {}),
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    return tokenizer.get_vocab_size()


def _training_text() -> Iterator[str]:
    """Sentences of invented words, some JSON, and some characters of several bytes."""
    chooser = random.Random(1)
    onsets, vowels, codas = "bcdfghlmnprstvw", "aeiou", "nrstlm "
    words = [
        "".join(
            chooser.choice(onsets) + chooser.choice(vowels) + chooser.choice(codas).strip()
            for _ in range(chooser.randint(1, 4))
        )
        for _ in range(6000)
    ]
    common = ["the", "a", "of", "to", "and", "in", "is", "you", "that", "it", "for", "user"]
    for number in range(8000):
        sentence = [chooser.choice(common if chooser.random() < 0.4 else words) for _ in range(12)]
        yield " ".join(sentence).capitalize() + chooser.choice([". ", "? ", "!\n", ", ", ":\n\n"])
        if number % 20 == 0:
            yield json.dumps({"name": sentence[0], "arguments": {sentence[1]: number}})
            yield "naïve café «über» 日本語 🙂🎉 Ελλάδα "


if __name__ == "__main__":
    for wanted in sys.argv[1:] or sorted({*RECIPES} - {LARGE}):
        print(tiny_model_path(wanted))
