"""One attempt at one answer: the unit of work and of usage. How answers are made it knows not."""

from __future__ import annotations

import datetime
import math
import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from accounts.prepared import Given

# As the conditions of the partial indexes say it: of parameters SQLite does not know what they are
_IS_OPEN = models.Func(
    models.F("state"),
    template="%(expressions)s IN ('queued', 'running')",
    output_field=models.BooleanField(),
)


class GenerationQuerySet(models.QuerySet["Generation"]):
    def open(self) -> GenerationQuerySet:
        """Those without a terminal event yet."""
        return self.filter(_IS_OPEN)

    def of(self, person_id: int | Given) -> GenerationQuerySet:
        return self.filter(user_id=person_id)

    def counted(self) -> GenerationQuerySet:
        """Those that count to limits: the service's own work counts to nobody's."""
        return self.exclude(kind__in=Generation.OWN_KINDS)

    def queued(self) -> GenerationQuerySet:
        """Those that no engine has begun, as far as it is known yet."""
        return self.filter(state=Generation.State.QUEUED)

    def ended_before(self, moment: datetime.datetime) -> GenerationQuerySet:
        return self.exclude(state__in=Generation.OPEN_STATES).filter(finished_at__lt=moment)


class Generation(models.Model):
    """Its id is the request_id on the wire.

    QUEUED → RUNNING → DONE | FAILED | CANCELLED. `request` is the wire command as text: kept while
    the row is open, so that it can be submitted again, and emptied when it ends.
    """

    class Kind(models.TextChoices):
        CHAT = "chat"
        API = "api", "API"
        TITLE = "title"
        BATCH = "batch"
        BENCH = "bench", "Benchmark"

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    OPEN_STATES = (State.QUEUED, State.RUNNING)
    OWN_KINDS = (Kind.TITLE, Kind.BENCH)  # the service's own work

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="generations", verbose_name="person"
    )
    api_key = models.ForeignKey(
        "accounts.ApiKey",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,  # found by the index below
    )
    client = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=8, choices=Kind)
    conversation = models.ForeignKey(
        "Conversation", models.SET_NULL, null=True, blank=True, related_name="generations"
    )
    message = models.OneToOneField(
        "Message", models.SET_NULL, null=True, blank=True, related_name="generation"
    )
    model_name = models.CharField("model", max_length=100)
    tenant = models.CharField(max_length=64)
    priority = models.CharField(max_length=16)
    request = models.TextField(blank=True, editable=False)
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    is_cancel_requested = models.BooleanField(default=False, editable=False)
    finish_reason = models.CharField(max_length=16, blank=True)
    error_code = models.CharField(max_length=64, blank=True)
    error_detail = models.TextField(blank=True)
    prompt_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    reasoning_tokens = models.PositiveIntegerField(default=0)
    queued_seconds = models.FloatField(default=0)
    ttft_seconds = models.FloatField(null=True, blank=True)
    decode_seconds = models.FloatField(default=0)
    # For administrators only: where the prompt left the nearest stored prefix, and why no more of
    # that was used. It tells of other people's prompts.
    nearest_tokens = models.PositiveIntegerField(null=True, editable=False)
    prefix_miss = models.CharField(max_length=16, blank=True, editable=False)
    # What was agreed when it was admitted: what it may spend at most, and how that is counted
    reserved_tokens = models.BigIntegerField(default=0, editable=False)
    cached_weight = models.FloatField(default=1.0, editable=False)
    time_zone = models.CharField(max_length=64, default="UTC", editable=False)
    paying_group = models.ForeignKey(
        "auth.Group", models.SET_NULL, null=True, editable=False, related_name="+"
    )  # whose shared budget it takes from
    # Which alone can tell its answer, for the caller cannot come back
    web_process = models.UUIDField(null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = GenerationQuerySet.as_manager()

    # What its limits have left, as admission found it and this row left it. Not stored.
    meters: tuple[Any, ...] = ()

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="generations_newest"),
            models.Index(
                fields=["-created_at", "-id"],
                name="generations_open",
                condition=models.Q(state__in=("queued", "running")),
            ),
            models.Index(
                fields=["user", "state"],
                name="generations_open_of_person",
                condition=models.Q(state__in=("queued", "running")),
            ),
            models.Index(fields=["user", "-created_at"], name="generations_of_person"),
            models.Index(fields=["user", "-finished_at"], name="generations_ended_of_person"),
            models.Index(fields=["finished_at"], name="generations_ended"),
            # Lists of what is rare among millions
            models.Index(fields=["state", "-created_at", "-id"], name="generations_by_state"),
            models.Index(fields=["api_key", "-created_at"], name="generations_of_key"),
            models.Index(fields=["model_name", "-created_at", "-id"], name="generations_of_model"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    @property
    def charged_tokens(self) -> int:
        """What it takes from budgets and windows, once it has ended; cached ones by weight."""
        if self.kind in self.OWN_KINDS:
            return 0
        free = math.floor(self.cached_tokens * (1 - self.cached_weight))
        return self.prompt_tokens - free + self.completion_tokens

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN_STATES
