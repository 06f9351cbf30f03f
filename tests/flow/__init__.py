"""The whole service, all processes real: from an API key or a browser's session to MLX and back."""
