"""Deletions that Redis and the engines have to follow. What they keep it does not know."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class ForgettingQuerySet(models.QuerySet["Forgetting"]):
    def due(self) -> ForgettingQuerySet:
        return self.filter(told_at=None).order_by("pk")


class Forgetting(models.Model):
    """Written with the deletion itself; `told_at`: when Redis took it, None as long as it has not.

    It is kept for some days after that, for a Redis that loses what it knew.
    """

    tenant = models.CharField(max_length=100, blank=True)
    publication = models.CharField(max_length=100, blank=True)
    model_name = models.CharField(max_length=200, blank=True)
    request_ids = models.JSONField(default=list)
    told_at = models.DateTimeField(null=True, db_index=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = ForgettingQuerySet.as_manager()

    def __str__(self) -> str:
        return f"forgetting {self.pk}"
