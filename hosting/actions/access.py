"""Ends what somebody has under way whose access has ended."""

from __future__ import annotations

from hosting.actions.generations import cancel_open
from hosting.models import Generation


def end_open_generations(**whose: int) -> None:
    """`user_id` or `api_key_id` says whose."""
    cancel_open(Generation.objects.filter(**whose))
