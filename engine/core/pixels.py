"""What a model sees of an image, as bytes that travel: [height, width, 3], of 8 bits.

Each pixel less its neighbour to the left, then deflated: a photograph takes about half of itself,
a screenshot next to nothing. Nothing is lost.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

_SIZE = struct.Struct("<HH")
_LEVEL = 1  # more costs intake ten times the time for a tenth of the bytes


def pack(pixels: Pixels) -> bytes:
    height, width, _ = pixels.shape
    steps = pixels.copy()
    steps[:, 1:] -= pixels[:, :-1]  # modulo 256
    return _SIZE.pack(height, width) + zlib.compress(steps.tobytes(), _LEVEL)


def unpack(packed: bytes) -> Pixels:
    """Raises ValueError, struct.error or zlib.error where these bytes are no image."""
    height, width = _SIZE.unpack_from(packed)
    steps = np.frombuffer(zlib.decompress(packed[_SIZE.size :]), np.uint8)
    return np.cumsum(steps.reshape(height, width, 3), axis=1, dtype=np.uint8)
