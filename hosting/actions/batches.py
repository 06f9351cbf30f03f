"""Batches of a person: made, found, cancelled. Another person's are not found."""

from __future__ import annotations

import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import ApiKey, User
from hosting.actions import file_bytes
from hosting.actions.background import enqueue
from hosting.actions.files import get_file, id_in
from hosting.actions.generations import cancel_open
from hosting.actions.refusals import Refusal, not_found
from hosting.models import Batch, BatchLine, Generation

_Status = Batch.Status
_MOST_OPEN = 100  # of one person
_ROWS_AT_ONCE = 500


def create_batch(
    user: User,
    api_key: ApiKey,
    *,
    input_file_id: str,
    endpoint: str,
    metadata: dict[str, str] | None,
    output_kept_seconds: int | None = None,
    num_lines: int = 0,
) -> Batch:
    """It is looked through and begun in the background. `num_lines`, if known. Raises Refusal."""
    with transaction.atomic():
        User.objects.hold(user.pk)  # nobody deletes the file meanwhile
        file = get_file(user, input_file_id, field="input_file_id")
        if Batch.objects.of(user.pk).open().count() >= _MOST_OPEN:
            message = f"You have {_MOST_OPEN} batches under way. Wait until one has ended."
            raise Refusal("batch_limit_exceeded", message, status=400)
        batch = Batch.objects.create(
            user=user,
            api_key=api_key,
            endpoint=endpoint,
            metadata=metadata,
            input_file=file.pk,
            output_kept_seconds=output_kept_seconds,
            num_lines=num_lines,
        )
        transaction.on_commit(partial(enqueue, "run_batches"))
    return batch


def get_batch(user: User, public_id: str) -> Batch:
    """Raises Refusal."""
    batch_id = id_in(public_id, "batch_")
    found = Batch.objects.of(user.pk).filter(pk=batch_id).first() if batch_id else None
    if found is None:
        raise not_found("batch")
    return found


def cancel_batch(batch: Batch) -> Batch:
    """What runs of it is stopped; what is done can be read when it is cancelled. Raises Refusal."""
    with transaction.atomic():
        User.objects.hold(batch.user_id)
        found = Batch.objects.filter(pk=batch.pk, status__in=Batch.CANCELLABLE)
        if found.update(status=_Status.CANCELLING, cancelling_at=timezone.now()):
            cancel_open(Generation.objects.filter(pk__in=generations_under_way(batch)))
            transaction.on_commit(partial(enqueue, "run_batches"))
    batch.refresh_from_db()
    if batch.status not in (_Status.CANCELLING, _Status.CANCELLED):
        message = f"This batch is {batch.status}: there is nothing to cancel."
        raise Refusal("batch_not_cancellable", message)
    return batch


def generations_under_way(batch: Batch) -> list[str]:
    lines = BatchLine.objects.filter(batch=batch)
    return [pk for line in lines for pk in line.begun]


def delete_batches_of(user: User) -> None:
    """In the caller's transaction; what they have written goes with it."""
    files = Batch.objects.of(user.pk).open().values_list("output_file", "error_file")
    written = [file_id for both in files for file_id in both]
    Batch.objects.of(user.pk).delete()
    transaction.on_commit(partial(file_bytes.delete, written))


def delete_old_batches() -> int:
    """Those that ended more than RETENTION_DAYS ago."""
    limit = timezone.now() - datetime.timedelta(days=settings.RETENTION_DAYS)
    total = 0
    old = Batch.objects.filter(ended_at__lt=limit)
    while ids := list(old.values_list("pk", flat=True)[:_ROWS_AT_ONCE]):
        total += Batch.objects.filter(pk__in=ids).delete()[0]
    return total


def enqueue_open_batches() -> None:
    """Somebody goes on with them, if nobody does."""
    if Batch.objects.open().exists():
        enqueue("run_batches")


def told_of(user: User) -> list[dict[str, Any]]:
    """For the person's own export."""
    names = ("endpoint", "status", "model_name", "num_lines", "num_completed", "num_failed")
    return [
        {"id": one.public_id, "created_at": one.created_at.isoformat()}
        | {name: getattr(one, name) for name in names}
        for one in Batch.objects.of(user.pk)
    ]
