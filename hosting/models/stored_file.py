"""Files that people have given, and that batches have written. The bytes lie in the data folder."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone


class StoredFileQuerySet(models.QuerySet["StoredFile"]):
    def of(self, person_id: int) -> StoredFileQuerySet:
        return self.filter(user_id=person_id)

    def live(self) -> StoredFileQuerySet:
        """Those whose time is not over."""
        return self.filter(expires_at__gt=timezone.now())


class StoredFile(models.Model):
    """A row is there only when all bytes are (actions/files.py)."""

    class Purpose(models.TextChoices):
        BATCH = "batch"
        BATCH_OUTPUT = "batch_output"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False
    )
    purpose = models.CharField(max_length=16, choices=Purpose)
    filename = models.CharField(max_length=255)
    num_bytes = models.BigIntegerField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(db_index=True)

    objects = StoredFileQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["user", "-created_at", "-id"], name="files_of_person")]

    def __str__(self) -> str:
        return f"file {self.pk}"

    @property
    def public_id(self) -> str:
        return f"file-{self.pk.hex}"
