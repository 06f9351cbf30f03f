"""Limits as somebody set them, and what was spent of budgets. accounts/limits.py combines them."""

from __future__ import annotations

import zoneinfo
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from accounts.models.api_keys import ApiKey
from accounts.models.people import User
from accounts.prepared import Given


def check_time_zone(name: str) -> None:
    if name not in zoneinfo.available_timezones():
        raise ValidationError("There is no time zone of this name. Example: Europe/Prague.")


def check_model_names(names: Any) -> None:
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ValidationError("This must be a list of model names.")


class QuotaQuerySet(models.QuerySet["Quota"]):
    def of(self, user: User | Given, api_key: ApiKey | Given | None) -> QuotaQuerySet:
        """Everything that was set for this person: own, the groups', the key's, everybody's."""
        everybody = Q(user=None, group=None, api_key=None)
        return self.filter(
            everybody
            | Q(user=user)
            | Q(group__user=user)
            | Q(api_key__isnull=False, api_key=api_key)
        )


class Quota(models.Model):
    """The limits of one person, group or key; of everybody when it is nobody's.

    Empty fields limit nothing. A group's limits hold for each of its people by themself, but for
    the shared ones: that much its people may use together.
    """

    class Class(models.TextChoices):
        INTERACTIVE = "interactive"
        API = "api", "API"
        BATCH = "batch"

    class CachedTokens(models.TextChoices):
        FULL = "full", "in full"
        HALF = "half", "half"
        NONE = "none", "not at all"

    user = models.OneToOneField(
        User, models.CASCADE, null=True, blank=True, related_name="quota", verbose_name="person"
    )
    group = models.OneToOneField(Group, models.CASCADE, null=True, blank=True, related_name="quota")
    api_key = models.OneToOneField(
        ApiKey, models.CASCADE, null=True, blank=True, related_name="quota", verbose_name="API key"
    )
    allowed_models = models.JSONField(
        default=list, blank=True, validators=[check_model_names], help_text="None named: all."
    )
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    max_concurrent = models.PositiveIntegerField(
        "requests at once", null=True, blank=True, help_text="Running and waiting together."
    )
    max_queued = models.PositiveIntegerField(
        "requests waiting",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Of those at once, how many may not have begun. It takes some seconds to show.",
    )
    max_context_tokens = models.PositiveIntegerField(
        "context", null=True, blank=True, help_text="Tokens of prompt and answer together."
    )
    max_output_tokens = models.PositiveIntegerField(
        "longest answer", null=True, blank=True, help_text="Tokens of one answer."
    )
    tokens_per_day = models.PositiveBigIntegerField(null=True, blank=True)
    tokens_per_month = models.PositiveBigIntegerField(null=True, blank=True)
    shared_tokens_per_day = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Of all people of the group together."
    )
    shared_tokens_per_month = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Of all people of the group together."
    )
    time_zone = models.CharField(
        max_length=64,
        blank=True,
        validators=[check_time_zone],
        help_text="Where days and months begin. Example: Europe/Prague.",
    )
    cached_tokens_count = models.CharField(
        max_length=8,
        choices=CachedTokens,
        blank=True,
        help_text="How prompt tokens count that were not computed again.",
    )
    weight = models.FloatField(
        "share",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.1), MaxValueValidator(10)],
        help_text="Of the engine's time while others wait too. 2 is twice the usual share.",
    )
    highest_class = models.CharField("highest priority", max_length=16, choices=Class, blank=True)

    objects = QuotaQuerySet.as_manager()

    class Meta:
        verbose_name = "limits"
        verbose_name_plural = "limits"
        constraints = [
            models.CheckConstraint(
                condition=Q(user=None, group=None)
                | Q(user=None, api_key=None)
                | Q(group=None, api_key=None),
                name="quota_has_one_owner",
            ),
            models.CheckConstraint(
                condition=Q(group__isnull=False)
                | Q(shared_tokens_per_day=None, shared_tokens_per_month=None),
                name="quota_shares_in_groups",
            ),
        ]

    def __str__(self) -> str:
        return f"limits of {self.owner}"

    @property
    def owner(self) -> str:
        for owner in (self.user, self.group, self.api_key):
            if owner is not None:
                return str(owner)
        return "everybody"


class Spending(models.Model):
    """What a person ("user:7"), key ("key:12") or group ("group:3") spent on one of their days."""

    subject = models.CharField(max_length=32)
    day = models.DateField()
    tokens = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subject", "day"], name="spending_once")]

    def __str__(self) -> str:
        return f"{self.subject} {self.day}"
