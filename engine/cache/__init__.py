"""The prefix cache. It knows keys and bytes, never mlx and never redis."""
