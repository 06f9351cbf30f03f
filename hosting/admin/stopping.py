"""Stops running generations for an administrator, and leaves a log entry of each."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpRequest

from accounts.audit import record_of
from hosting.actions.generations import cancel_generation
from hosting.models import Generation

STOP_PERMISSION = "hosting.change_generation"


def stop_generations(request: HttpRequest, generations: Iterable[Generation]) -> int:
    """Returns how many were still open."""
    stopped = [generation for generation in generations if generation.is_open]
    for generation in stopped:
        cancel_generation(generation)
        record_of(request, "generation.stop", target=generation.pk)
        LogEntry.objects.log_actions(
            user_id=request.user.pk,
            queryset=[generation],
            action_flag=CHANGE,
            change_message="Stopped by an administrator.",
            single_object=True,
        )
    return len(stopped)
