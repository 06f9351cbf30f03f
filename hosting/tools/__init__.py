"""The page with set-ups for other people's programs."""
