"""Linear layers on x86 processors: weights lie in memory by their inputs.

OpenBLAS multiplies by such a matrix in 0.5 to 0.8 of the time where rows are few, as in decode
steps, and in the same where they are many. The weights' shape and values stay what they were.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx import nn


def lay_out(model: Any) -> None:
    """Lazily: whoever evaluates the weights next lays them out.

    Rows of tied embeddings are gathered from scattered places then, 20 us a token of 1,024 numbers;
    each step as their head gains more than that.
    """
    is_tied = getattr(getattr(model, "args", None), "tie_word_embeddings", False)
    kinds = (nn.Linear, nn.Embedding) if is_tied else (nn.Linear,)
    for layer in model.modules():
        if type(layer) in kinds and layer.weight.dtype == mx.float32:
            layer.weight = mx.contiguous(layer.weight.T).T
