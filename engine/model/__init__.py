"""Everything that imports mlx. One thread, the model thread, calls all of it."""
