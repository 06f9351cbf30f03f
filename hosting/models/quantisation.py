"""Quantised copies of models that somebody has asked for, and how far each is."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone

from hosting.models.hosted_model import NAME_PATTERN, HostedModel


class QuantisationQuerySet(models.QuerySet["Quantisation"]):
    def open(self) -> QuantisationQuerySet:
        return self.filter(state__in=Quantisation.OPEN)


class Quantisation(models.Model):
    """WAITING → RUNNING → DONE | FAILED | CANCELLED. One is running at a time.

    Whoever runs it holds a lock (actions/quantising.py): where nobody has it, a RUNNING one is one
    whose process died, and begins again. Only an open one may end, and the model `name` is made in
    the transaction that makes it DONE.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    OPEN = (State.WAITING, State.RUNNING)

    # None: it was deleted
    source = models.ForeignKey(
        HostedModel, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    source_name = models.CharField("model", max_length=100)
    name = models.CharField("copy", max_length=100, validators=[RegexValidator(NAME_PATTERN)])
    mode = models.CharField(max_length=20)
    bits = models.PositiveSmallIntegerField()
    group_size = models.PositiveSmallIntegerField()
    estimated_bytes = models.BigIntegerField("estimated size")
    state = models.CharField(max_length=20, choices=State, default=State.WAITING)
    fraction = models.FloatField("written", default=0)
    num_deaths = models.PositiveSmallIntegerField(default=0)  # of the process that computes it
    detail = models.TextField("why", blank=True)
    created_at = models.DateTimeField("asked for", default=timezone.now)
    ended_at = models.DateTimeField("ended", null=True, blank=True)

    objects = QuantisationQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        verbose_name = "quantised copy"
        verbose_name_plural = "quantised copies"
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(state__in=["waiting", "running"]),
                name="one_open_copy_of_a_name",
                violation_error_message="A copy of this name is being made.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name}, of {self.source_name}"
