"""Everything that imports mlx. One thread, the model thread, calls all of it."""

import os

# MLX on CUDA plans attention anew for every shape. After 512 plans it raises at each further one,
# for good, to say that this is slow: whoever reads prompts of all lengths is there in an hour.
os.environ.setdefault("MLX_ENABLE_CACHE_THRASHING_CHECK", "0")
