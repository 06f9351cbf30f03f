"""The ledger of what people used, and its sums. A generation is an id only."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from accounts.models.api_keys import ApiKey
from accounts.models.people import User


class TokenCounts(models.Model):
    """The ledger's token columns. Reasoning is part of completion, cached is part of prompt."""

    prompt_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)
    reasoning_tokens = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class UsageRecord(TokenCounts):
    """One line of the ledger: one ended generation. Written once, outlives its person and key."""

    class End(models.TextChoices):
        STOP = "stop"
        LENGTH = "length"
        TOOL_CALLS = "tool_calls", "tool calls"
        CANCELLED = "cancelled"
        FAILED = "failed"
        REFUSED = "refused"

    class Kind(models.TextChoices):
        CHAT = "chat"
        API = "api", "API"
        INTERNAL = "internal"

    generation_id = models.UUIDField(unique=True)
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.API)
    user = models.ForeignKey(User, models.SET_NULL, null=True, verbose_name="person")
    api_key = models.ForeignKey(ApiKey, models.SET_NULL, null=True, verbose_name="API key")
    client = models.CharField(max_length=100, blank=True)
    model_name = models.CharField("model", max_length=200)
    queued_seconds = models.FloatField("queued", default=0)
    ttft_seconds = models.FloatField("first token", null=True)
    duration_seconds = models.FloatField("duration", default=0)
    charged_tokens = models.BigIntegerField(
        "charged", default=0, help_text="What it took from budgets."
    )
    end = models.CharField(max_length=16, choices=End)
    error_code = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="usage_newest"),
            models.Index(fields=["user", "-created_at"], name="usage_of_person"),
            models.Index(fields=["api_key", "-created_at"], name="usage_of_key"),
            models.Index(fields=["model_name", "-created_at"], name="usage_of_model"),
        ]

    def __str__(self) -> str:
        return f"{self.model_name} {self.generation_id}"


# The upper bounds, in seconds, of the columns that count times to the first token
TTFT_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
TTFT_COLUMNS = tuple(f"ttft_{number}" for number in range(len(TTFT_BOUNDS) + 1))


class UsageSums(TokenCounts):
    """The ledger summed by person, key and model. It stays when the person is deleted.

    `payer` names person and key by their ids ("7:12", "7:-" for the chat page). Unlike the foreign
    keys it is never null, so it carries the uniqueness. The columns `ttft_0`, `ttft_1` ... count
    first tokens by how long they took, since percentiles cannot be summed.
    """

    payer = models.CharField(max_length=48, editable=False)
    user = models.ForeignKey(
        User, models.SET_NULL, null=True, related_name="+", verbose_name="person"
    )
    api_key = models.ForeignKey(
        ApiKey, models.SET_NULL, null=True, related_name="+", verbose_name="API key"
    )
    model_name = models.CharField("model", max_length=200)
    requests = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)
    ttft_0 = models.BigIntegerField(default=0)
    ttft_1 = models.BigIntegerField(default=0)
    ttft_2 = models.BigIntegerField(default=0)
    ttft_3 = models.BigIntegerField(default=0)
    ttft_4 = models.BigIntegerField(default=0)
    ttft_5 = models.BigIntegerField(default=0)
    ttft_6 = models.BigIntegerField(default=0)
    ttft_7 = models.BigIntegerField(default=0)
    ttft_8 = models.BigIntegerField(default=0)
    ttft_9 = models.BigIntegerField(default=0)
    ttft_10 = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class HourlyUsage(UsageSums):
    hour = models.DateTimeField()

    class Meta:
        ordering = ["-hour", "-id"]
        verbose_name = "hourly usage"
        verbose_name_plural = "hourly usage"
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "payer", "model_name"], name="hourly_usage_once"
            )
        ]
        indexes = [models.Index(fields=["user", "-hour"], name="hourly_usage_of_person")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.payer} {self.model_name}"


class DailyUsage(UsageSums):
    """The hours summed by day, in UTC."""

    day = models.DateField()

    class Meta:
        ordering = ["-day", "-id"]
        verbose_name = "daily usage"
        verbose_name_plural = "daily usage"
        constraints = [
            models.UniqueConstraint(fields=["day", "payer", "model_name"], name="daily_usage_once")
        ]
        indexes = [models.Index(fields=["user", "-day"], name="daily_usage_of_person")]

    def __str__(self) -> str:
        return f"{self.day} {self.payer} {self.model_name}"
