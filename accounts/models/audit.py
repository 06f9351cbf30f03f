"""The audit record's rows: added by accounts/audit.py, never changed, never removed."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from django.utils import timezone


class AppendOnly(Exception):
    """Audit records are added, never changed or removed."""


class AuditQuerySet(models.QuerySet["AuditRecord"]):
    def update(self, **fields: Any) -> NoReturn:
        raise AppendOnly

    def delete(self) -> NoReturn:
        raise AppendOnly


class AuditRecord(models.Model):
    """One administrative or security event.

    `number` counts 1, 2, 3 ... without gaps, and `mark` is a keyed hash of this record and of the
    mark before it, so that nothing can be changed or taken out unseen. Actor and target are kept
    as text: the record outlives them. `before` and `after` are JSON.
    """

    number = models.BigIntegerField(unique=True, editable=False)
    created_at = models.DateTimeField("when", default=timezone.now, editable=False, db_index=True)
    actor_id = models.BigIntegerField(null=True, editable=False)
    actor = models.CharField(max_length=254, editable=False, db_index=True)
    address = models.CharField(max_length=45, blank=True, editable=False, db_index=True)
    action = models.CharField(max_length=64, editable=False, db_index=True)
    target = models.CharField(max_length=300, blank=True, editable=False, db_index=True)
    before = models.TextField(blank=True, editable=False)
    after = models.TextField(blank=True, editable=False)
    mark = models.CharField(max_length=64, editable=False)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"{self.number} {self.action} {self.target}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly


class AuditHead(models.Model):
    """The end of the chain, in one row: who adds a record locks it. Its last record must exist."""

    number = models.BigIntegerField(default=0)
    mark = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"{self.number}:{self.mark}"
