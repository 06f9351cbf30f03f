"""The name under which a client may send the same call again. What is asked it does not know."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class IdempotencyKey(models.Model):
    """One call of one person: repeats of it follow its generations, in the order of its choices.

    `followed_until`: when to give up waiting for a client; None once that has been done.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    generation_ids = models.JSONField()
    followed_until = models.DateTimeField(null=True, db_index=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="one_call_for_each_key")
        ]

    def __str__(self) -> str:
        return f"idempotency key {self.pk}"
