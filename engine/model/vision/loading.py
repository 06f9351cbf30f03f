"""The tower of a model folder, beside what mlx-lm loads of it: that drops what sees.

Lazy, as mlx-lm's own weights are. A tower is quantised as its file has it, which for most is not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from engine.model.vision import gemma3
from engine.model.vision.sight import Sight
from engine.sizing.images import normalising_of, processor_settings, sees

_NAMES = re.compile(r"(?:model\.)?(vision_tower|multi_modal_projector)\.(?:vision_model\.)?(.*)")
_UNUSED = ("vision_tower.head.", "vision_tower.embeddings.position_ids")


def read_sight(
    folder: Path, config: dict[str, Any], model: Any
) -> tuple[Sight, nn.Module] | tuple[None, None]:
    """What reads images for `model`, and its weights, lazily; neither where it does not see. Raises
    ValueError for a tower that is built otherwise."""
    if not sees(folder, config):
        return None, None
    tower = gemma3.Tower(config, text_size=model.language_model.args.hidden_size)
    weights = _tower_weights(folder)
    if quantization := config.get("quantization"):
        _quantise_as_stored(tower, weights, quantization)
    tower.load_weights(list(weights.items()))
    normalising = normalising_of(processor_settings(folder))
    return gemma3.Gemma3Sight(model, tower, normalising), tower


def stored_tower(folder: Path) -> dict[str, mx.array]:
    """The weights that mlx-lm drops, as the folder names them. Lazy."""
    return {
        name: array
        for file in sorted(folder.glob("model*.safetensors"))
        for name, array in mx.load(str(file)).items()  # type: ignore[union-attr]
        if _NAMES.fullmatch(name)
    }


def _tower_weights(folder: Path) -> dict[str, mx.array]:
    weights: dict[str, mx.array] = {}
    for name, array in stored_tower(folder).items():
        if found := _NAMES.fullmatch(name):
            weights[f"{found[1]}.{found[2]}"] = array
    weights = {name: one for name, one in weights.items() if not name.startswith(_UNUSED)}
    patches = "vision_tower.embeddings.patch_embedding.weight"
    if patches in weights:
        weights[patches] = _channels_last(weights[patches])
    return weights


def _channels_last(kernel: mx.array) -> mx.array:
    """As MLX has it, [out, height, width, in]; PyTorch's has the channels before."""
    _, height, width, channels = kernel.shape
    return kernel if (height == width and channels == 3) else kernel.transpose(0, 2, 3, 1)


def _quantise_as_stored(
    tower: nn.Module, weights: dict[str, mx.array], quantization: dict[str, Any]
) -> None:
    def how(path: str, part: nn.Module) -> Any:
        if f"{path}.scales" not in weights or not hasattr(part, "to_quantized"):
            return False
        stored = path.replace("vision_tower.", "vision_tower.vision_model.", 1)
        return quantization.get(path, quantization.get(stored, True))

    nn.quantize(
        tower,
        group_size=quantization["group_size"],
        bits=quantization["bits"],
        mode=quantization.get("mode", "affine"),
        class_predicate=how,
    )
