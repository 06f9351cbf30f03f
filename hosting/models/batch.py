"""Batches: files of requests that nobody waits for, and how far each is."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from hosting.models.generation import Generation

WINDOW = datetime.timedelta(hours=24)


def _window_end() -> datetime.datetime:
    return timezone.now() + WINDOW


class BatchQuerySet(models.QuerySet["Batch"]):
    def of(self, person_id: int) -> BatchQuerySet:
        return self.filter(user_id=person_id)

    def open(self) -> BatchQuerySet:
        """Those that somebody must go on with."""
        return self.filter(ended_at=None)


class Batch(models.Model):
    """VALIDATING → FAILED | IN_PROGRESS → FINALIZING → COMPLETED, or EXPIRED, or FAILED where the
    access of its key ends; CANCELLING → CANCELLED.

        input    [ begun, next_offset | to begin ]         lines that are under way: BatchLine
        output   [ output_bytes | written, not counted ]   the same for errors

    What is written and what is counted are not changed together: bytes that are not counted are
    written over (actions/batch_results.py).
    """

    class Status(models.TextChoices):
        VALIDATING = "validating"
        FAILED = "failed"
        IN_PROGRESS = "in_progress", "In progress"
        FINALIZING = "finalizing"
        COMPLETED = "completed"
        EXPIRED = "expired"
        CANCELLING = "cancelling"
        CANCELLED = "cancelled"

    CANCELLABLE = (Status.VALIDATING, Status.IN_PROGRESS)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="+",
        db_index=False,
        verbose_name="person",
    )
    # None: it was deleted, and with it the right to go on
    api_key = models.ForeignKey(
        "accounts.ApiKey", models.SET_NULL, null=True, related_name="+", verbose_name="API key"
    )
    endpoint = models.CharField(max_length=64)
    metadata = models.JSONField(null=True)
    model_name = models.CharField("model", max_length=100, blank=True)
    status = models.CharField(max_length=16, choices=Status, default=Status.VALIDATING)
    errors = models.JSONField(default=list)
    input_file = models.UUIDField()
    output_file = models.UUIDField(default=uuid.uuid4)
    error_file = models.UUIDField(default=uuid.uuid4)
    output_kept_seconds = models.PositiveIntegerField(null=True)

    num_lines = models.PositiveIntegerField(default=0)
    num_completed = models.PositiveIntegerField(default=0)
    num_failed = models.PositiveIntegerField(default=0)
    num_expired = models.PositiveIntegerField(default=0)  # of those that failed
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    reasoning_tokens = models.PositiveBigIntegerField(default=0)

    next_line = models.PositiveIntegerField(default=1)
    next_offset = models.PositiveBigIntegerField(default=0)
    output_bytes = models.PositiveBigIntegerField(default=0)
    error_bytes = models.PositiveBigIntegerField(default=0)

    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(default=_window_end)
    in_progress_at = models.DateTimeField(null=True)
    finalizing_at = models.DateTimeField(null=True)
    cancelling_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = BatchQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name_plural = "batches"
        indexes = [
            models.Index(fields=["user", "-created_at", "-id"], name="batches_of_person"),
            models.Index(
                fields=["created_at"], name="batches_open", condition=models.Q(ended_at=None)
            ),
            models.Index(fields=["-created_at", "-id"], name="batches_newest"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"batch_{self.pk.hex}"

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    @property
    def may_be_cancelled(self) -> bool:
        return self.status in self.CANCELLABLE

    @property
    def num_done(self) -> int:
        return self.num_completed + self.num_failed

    @property
    def written_files(self) -> list[uuid.UUID]:
        sizes = ((self.output_file, self.output_bytes), (self.error_file, self.error_bytes))
        return [file_id for file_id, num_bytes in sizes if num_bytes]

    @property
    def output_file_id(self) -> str | None:
        """Once it may be read."""
        return _file_id(self.output_file) if self.output_bytes and self.ended_at else None

    @property
    def error_file_id(self) -> str | None:
        return _file_id(self.error_file) if self.error_bytes and self.ended_at else None


class BatchLine(models.Model):
    """One line that is under way: begun, and its result not in a file yet.

    `generations`: their ids in the order of the choices; None for one that is to be begun (again).
    """

    batch = models.ForeignKey(Batch, models.CASCADE, related_name="lines", db_index=False)
    number = models.PositiveIntegerField()
    offset = models.PositiveBigIntegerField()
    generations = models.JSONField()
    num_attempts = models.PositiveIntegerField(default=1)
    again_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "number"], name="a_line_once")]

    def __str__(self) -> str:
        return f"line {self.number}"

    @property
    def begun(self) -> list[str]:
        return [one for one in self.generations if one is not None]


class BatchAnswer(models.Model):
    """All events of a batch's or a benchmark's generation, stored together with its end and what it
    cost: Redis forgets them. Gone when its line is in a file, or its result in a row."""

    generation = models.OneToOneField(
        Generation, models.CASCADE, primary_key=True, related_name="+"
    )
    events = models.BinaryField()


def _file_id(file: Any) -> str:
    return f"file-{file.hex}"
