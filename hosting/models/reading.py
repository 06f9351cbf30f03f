"""The engines' heartbeats over time, in slots of equal length. How they are made it knows not."""

from __future__ import annotations

from django.db import models


class EngineReadingQuerySet(models.QuerySet["EngineReading"]):
    def of(self, engine: str, step_seconds: int) -> EngineReadingQuerySet:
        return self.filter(engine=engine, step_seconds=step_seconds)

    def between(self, start: int, end: int) -> EngineReadingQuerySet:
        """Slots that begin in [start, end), oldest first."""
        return self.filter(at__gte=start, at__lt=end).order_by("at")


class EngineReading(models.Model):
    """One slot: `at` is its begin in Unix seconds, `values` a Reading (actions/readings.py)."""

    engine = models.CharField(max_length=100)
    step_seconds = models.PositiveIntegerField()
    at = models.BigIntegerField()
    values = models.JSONField()

    objects = EngineReadingQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["engine", "step_seconds", "at"], name="one_reading_per_slot"
            )
        ]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.engine} {self.at}+{self.step_seconds}"
