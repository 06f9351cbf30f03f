"""The memory that an engine may use, where an administrator has set it."""

from __future__ import annotations

from django.db import models


class MemoryLimit(models.Model):
    """An engine without a row keeps the limit that it started with."""

    engine = models.CharField(max_length=100, unique=True)
    limit_bytes = models.BigIntegerField()

    def __str__(self) -> str:
        return self.engine
