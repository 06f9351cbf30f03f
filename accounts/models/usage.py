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
    # Both are found by the indexes below
    user = models.ForeignKey(
        User, models.SET_NULL, null=True, db_index=False, verbose_name="person"
    )
    api_key = models.ForeignKey(
        ApiKey, models.SET_NULL, null=True, db_index=False, verbose_name="API key"
    )
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
            models.Index(fields=["model_name", "-created_at", "-id"], name="usage_of_model"),
            models.Index(fields=["end", "-created_at", "-id"], name="usage_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.model_name} {self.generation_id}"


# The upper bounds, in seconds, of the columns that count times to the first token
TTFT_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
TTFT_COLUMNS = tuple(f"ttft_{number}" for number in range(len(TTFT_BOUNDS) + 1))


class UsageSums(TokenCounts):
    """The ledger of one period, summed by person, key and model. Stays when the person is deleted.

    `payer` names person and key by their ids ("7:12", "7:-" for the chat page). Unlike the foreign
    keys it is never null, so it carries the uniqueness. The columns `ttft_0`, `ttft_1` ... count
    first tokens by how long they took, since percentiles cannot be summed. A subclass adds
    `period`, the beginning of the hour, day or week, in UTC.
    """

    payer = models.CharField(max_length=48, editable=False)
    user = models.ForeignKey(
        User,
        models.SET_NULL,
        null=True,
        db_index=False,
        related_name="+",
        verbose_name="person",
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
        ordering = ["-period", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["period", "payer", "model_name"], name="%(class)s_once")
        ]
        indexes = [models.Index(fields=["user", "-period"], name="%(class)s_of_person")]

    def __str__(self) -> str:
        return f"{self.period:%Y-%m-%d %H:00} {self.payer} {self.model_name}"  # type: ignore[attr-defined]


class HourlyUsage(UsageSums):
    period = models.DateTimeField("hour")

    class Meta(UsageSums.Meta):
        verbose_name = verbose_name_plural = "hourly usage"


class DailyUsage(UsageSums):
    period = models.DateField("day")


class WeeklyUsage(UsageSums):
    """Weeks begin on Monday."""

    period = models.DateField("week")


class RollUpMark(models.Model):
    """How far the ledger is summed. One row; whoever sums a day locks it.

    Every line up to `settled_id` is in the sums. `seen_id` was the newest at `seen_at`: a line
    below it may have been committed later, but not many minutes later.
    """

    settled_id = models.BigIntegerField(default=0)
    seen_id = models.BigIntegerField(default=0)
    seen_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.settled_id} of {self.seen_id}"
