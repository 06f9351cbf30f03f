"""Ends what somebody has under way whose access has ended."""

from __future__ import annotations

from hosting.actions.generations import cancel_generation
from hosting.models import Generation


def end_open_generations(**whose: int) -> None:
    """`user_id` or `api_key_id` says whose."""
    for generation in Generation.objects.open().filter(**whose):
        cancel_generation(generation)
