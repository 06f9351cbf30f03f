"""Sizes from configs, bytes from sizes."""
