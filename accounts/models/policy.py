"""What holds for the whole installation: how long things are kept, who may read conversations."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

MOST_DAYS = 36_500  # a century; more leaves the calendar
LEAST_USAGE_DAYS = 2  # what is younger may not be summed yet


class PolicyManager(models.Manager["Policy"]):
    def current(self) -> Policy:
        """The one row, or the defaults while nobody has changed them."""
        return self.filter(pk=1).first() or Policy(pk=1)


def _days(label: str, help_text: str, *, least: int = 1) -> models.PositiveIntegerField[Any, Any]:
    return models.PositiveIntegerField(
        label,
        null=True,
        blank=True,
        validators=[MinValueValidator(least), MaxValueValidator(MOST_DAYS)],
        help_text=f"{help_text} Empty: never.",
    )


class Policy(models.Model):
    """One row. A person may have things deleted sooner, never later."""

    conversation_days = _days("delete conversations after", "Days without a new message.")
    usage_days = _days(
        "delete lines of the ledger after",
        "Days. The sums by hour, day and week stay.",
        least=LEAST_USAGE_DAYS,
    )
    may_read_conversations = models.BooleanField(
        "administrators may read conversations",
        default=False,
        help_text="Everybody is told on their own pages, and each reading is in the audit record.",
    )

    objects = PolicyManager()

    class Meta:
        verbose_name = "policy"
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return "the installation"
