"""Whether MLX may compile functions for this machine's processor.

On Linux it hands C++ to `g++`, and loads what lies in /tmp/mlx. GCC 13 and later refuse that C++
(mlx 0.32.4; ml-explore/mlx#2281): no model with such a function could be loaded. And whose the
folder is, whoever of all users made it first, decides what is loaded. Uncompiled functions give the
same; decode steps take as long, long prompts of gated delta layers twice as long.
"""

from __future__ import annotations

import functools
import logging
import os
import tempfile
from pathlib import Path

import mlx.core as mx

logger = logging.getLogger(__name__)


@functools.cache
def compile_where_possible() -> None:
    """Once in a process, before a model is called."""
    if mx.default_device() == mx.Device(mx.cpu) and (fault := _fault()):
        mx.disable_compile()
        logger.warning("functions are not compiled", extra={"reason": fault})


def _fault() -> str:
    """Empty where it works."""
    folder = Path(tempfile.gettempdir()) / "mlx"
    if folder.exists() and folder.stat().st_uid != os.getuid():
        return f"{folder} is another user's"
    try:
        mx.eval(mx.compile(_anything)(mx.zeros(1)))
    except RuntimeError as error:
        return str(error)[:500]
    return ""


def _anything(array: mx.array) -> mx.array:
    return mx.sigmoid(array) * array
