"""Pure scheduling: no mlx, redis, threads, clock or files."""
