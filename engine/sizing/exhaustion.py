"""How a device says that it has no memory left, whatever was reckoned: other programs use it too.

MLX raises RuntimeError with the words of CUDA's or Metal's allocator, or with its own.
"""

from __future__ import annotations

import re

_WORDS = re.compile(r"out of memory|unable to allocate", re.IGNORECASE)


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or bool(_WORDS.search(str(error)))
