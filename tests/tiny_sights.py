"""What a tiny Gemma 3 that sees has beside its text model: a tower of SigLIP's shape, the settings
of its image processor, and a chat template of the kind that Gemma has.

Names and shapes of the weights are those of published files, with PyTorch's kernels. The template
takes what the real one takes: turns that alternate, a system prompt before the first question, and
contents that are text or lists of parts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SPECIAL_TOKENS = (
    "<pad>",
    "<eos>",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
)
_IDS = dict(zip(SPECIAL_TOKENS, range(len(SPECIAL_TOKENS)), strict=True))
EOS_ID = _IDS["<eos>"]
START_OF_TURN_ID, END_OF_TURN_ID = _IDS["<start_of_turn>"], _IDS["<end_of_turn>"]
START_OF_IMAGE_ID, END_OF_IMAGE_ID = _IDS["<start_of_image>"], _IDS["<end_of_image>"]
IMAGE_ID = _IDS["<image_soft_token>"]
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- set first = namespace(prefix='') %}
{%- if messages[0].role == 'system' %}
{%- set first.prefix = messages[0].content + '\\n\\n' %}
{%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}
{{- first.prefix if loop.first }}
{%- if message.content is string %}
{{- message.content | trim }}
{%- else %}
{%- for part in message.content %}
{{- '<start_of_image>' if part.type == 'image' else part.text | trim }}
{%- endfor %}
{%- endif %}
{{- '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{% endif %}
"""
IMAGE_SIZE, PATCH_SIZE, NUM_TOKENS = 32, 4, 16
_SIZE, _INNER, _LAYERS, _HEADS = 48, 96, 2, 3
VISION = {
    "model_type": "siglip_vision_model",
    "hidden_size": _SIZE,
    "intermediate_size": _INNER,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "image_size": IMAGE_SIZE,
    "patch_size": PATCH_SIZE,
    "vision_use_head": False,
}
CONFIG = {
    "model_type": "gemma3",
    "vision_config": VISION,
    "mm_tokens_per_image": NUM_TOKENS,
    "boi_token_index": START_OF_IMAGE_ID,
    "eoi_token_index": END_OF_IMAGE_ID,
    "image_token_index": IMAGE_ID,
}
PROCESSOR = {
    "image_processor_type": "Gemma3ImageProcessor",
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_pan_and_scan": None,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.4, 0.6],
    "image_std": [0.5, 0.6, 0.4],
    "image_seq_length": NUM_TOKENS,
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": IMAGE_SIZE, "width": IMAGE_SIZE},
}


def write_sight(folder: Path, *, text_size: int) -> None:
    """The tower in a file of its own, and the image processor's settings."""
    import mlx.core as mx

    weights = {name: mx.array(one) for name, one in tower_weights(text_size).items()}
    mx.save_safetensors(str(folder / "model-vision.safetensors"), weights, {"format": "pt"})
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR, indent=1))


def tower_weights(text_size: int) -> dict[str, np.ndarray[Any, Any]]:
    """Wide enough that attention is far from even, and that an answer depends on what is seen."""
    random = np.random.default_rng(5)
    made: dict[str, np.ndarray[Any, Any]] = {}

    def add(name: str, *shape: int, spread: float = 0.3) -> None:
        made[name] = random.normal(0, spread, shape).astype(np.float32)

    def add_linear(name: str, given: int, taken: int) -> None:
        add(f"{name}.weight", given, taken, spread=taken**-0.5)
        add(f"{name}.bias", given)

    def add_norm(name: str) -> None:
        made[f"{name}.weight"] = random.uniform(0.5, 1.5, _SIZE).astype(np.float32)
        add(f"{name}.bias", _SIZE)

    tower = "vision_tower.vision_model"
    add(f"{tower}.embeddings.patch_embedding.weight", _SIZE, 3, PATCH_SIZE, PATCH_SIZE)
    add(f"{tower}.embeddings.patch_embedding.bias", _SIZE)
    num_patches = (IMAGE_SIZE // PATCH_SIZE) ** 2
    add(f"{tower}.embeddings.position_embedding.weight", num_patches, _SIZE)
    for number in range(_LAYERS):
        layer = f"{tower}.encoder.layers.{number}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            add_linear(f"{layer}.self_attn.{part}", _SIZE, _SIZE)
        add_linear(f"{layer}.mlp.fc1", _INNER, _SIZE)
        add_linear(f"{layer}.mlp.fc2", _SIZE, _INNER)
        add_norm(f"{layer}.layer_norm1")
        add_norm(f"{layer}.layer_norm2")
    add_norm(f"{tower}.post_layernorm")
    add("multi_modal_projector.mm_soft_emb_norm.weight", _SIZE)
    add("multi_modal_projector.mm_input_projection_weight", _SIZE, text_size)
    return made
