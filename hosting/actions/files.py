"""Files of people: taken in, found, deleted. Another person's are not found."""

from __future__ import annotations

import contextlib
import datetime
import time
import uuid
from collections.abc import Iterable
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from accounts.models import User
from hosting.actions import file_bytes
from hosting.actions.refusals import Refusal, not_found
from hosting.models import Batch, Image, StoredFile

_ROWS_AT_ONCE = 500
_ORPHAN_SECONDS = 24 * 3600.0  # no upload takes longer
MEGABYTE = 1024 * 1024


class FileTooLarge(Refusal):
    def __init__(self) -> None:
        message = f"A file may have {settings.MAX_FILE_BYTES // MEGABYTE:,} MB."
        super().__init__("file_too_large", message, field="file", status=413)


class TooManyFiles(Refusal):
    def __init__(self) -> None:
        most = settings.MAX_FILE_BYTES_PER_PERSON // MEGABYTE
        message = f"Your files and images may have {most:,} MB together. Delete some files, or "
        message += "conversations with images, that you need no more."
        super().__init__("storage_limit_exceeded", message, field="file", status=413)


def told_of(user: User) -> list[dict[str, Any]]:
    """For the person's own export."""
    names = ("purpose", "filename", "num_bytes")
    return [
        {"id": one.public_id, "created_at": one.created_at.isoformat()}
        | {name: getattr(one, name) for name in names}
        for one in StoredFile.objects.of(user.pk)
    ]


def store_file(
    user: User,
    chunks: Iterable[bytes],
    *,
    filename: str,
    num_bytes: int,
    kept_seconds: int | None = None,
) -> StoredFile:
    """Bytes first, then the row. Raises Refusal."""
    if num_bytes > settings.MAX_FILE_BYTES:
        raise FileTooLarge
    check_total(user, num_bytes)
    file_bytes.check_room(num_bytes)
    file_id = uuid.uuid4()
    file_bytes.write(file_id, chunks)
    with contextlib.ExitStack() as unless_stored, transaction.atomic():
        unless_stored.callback(file_bytes.delete, [file_id])
        User.objects.hold(user.pk)
        check_total(user, num_bytes)  # of several at once each sees the ones before it
        stored = add_row(
            file_id,
            user_id=user.pk,
            purpose=StoredFile.Purpose.BATCH,
            filename=filename,
            num_bytes=num_bytes,
            kept_seconds=kept_seconds,
        )
        transaction.on_commit(unless_stored.pop_all)
    return stored


def add_row(
    file_id: uuid.UUID,
    *,
    user_id: int,
    purpose: StoredFile.Purpose,
    filename: str,
    num_bytes: int,
    kept_seconds: int | None,
) -> StoredFile:
    now = timezone.now()
    kept = datetime.timedelta(days=settings.RETENTION_DAYS)
    if kept_seconds is not None:
        kept = datetime.timedelta(seconds=kept_seconds)
    return StoredFile.objects.create(
        id=file_id,
        user_id=user_id,
        purpose=purpose,
        filename=filename.replace("\0", "")[:255] or "file",
        num_bytes=num_bytes,
        created_at=now,
        expires_at=now + kept,
    )


def get_file(user: User, public_id: str, *, field: str | None = None) -> StoredFile:
    """Raises Refusal, which names the field."""
    file_id = id_in(public_id, "file-")
    rows = StoredFile.objects.of(user.pk).live()
    found = rows.filter(pk=file_id).first() if file_id else None
    if found is None:
        refusal = not_found("file")
        refusal.field = field
        raise refusal
    return found


def get_readable_file(user: User, public_id: str) -> StoredFile:
    """One whose bytes are there: somebody may take them out of the data folder. Raises Refusal."""
    file = get_file(user, public_id)
    if not file_bytes.path_of(file.pk).exists():
        raise not_found("file")
    return file


def id_in(public_id: str, prefix: str) -> uuid.UUID | None:
    """None for what is no id of ours."""
    if not public_id.startswith(prefix):
        return None
    try:
        found = uuid.UUID(hex=public_id.removeprefix(prefix))
    except ValueError:
        return None
    return found if f"{prefix}{found.hex}" == public_id else None


def delete_file(file: StoredFile) -> None:
    """Raises Refusal where a batch reads it."""
    with transaction.atomic():
        User.objects.hold(file.user_id)
        if Batch.objects.of(file.user_id).open().filter(input_file=file.pk).exists():
            message = "A batch that is under way reads this file. Cancel the batch first."
            raise Refusal("file_in_use", message)
        StoredFile.objects.filter(pk=file.pk).delete()
        transaction.on_commit(partial(file_bytes.delete, [file.pk]))


def delete_files_of(user: User) -> None:
    """In the caller's transaction."""
    ids = list(StoredFile.objects.of(user.pk).values_list("pk", flat=True))
    StoredFile.objects.filter(pk__in=ids).delete()
    transaction.on_commit(partial(file_bytes.delete, ids))


def delete_old_files() -> int:
    """Those whose time is over, and bytes that no row names: what wrote them has died."""
    read = Batch.objects.open().values("input_file")
    old = StoredFile.objects.filter(expires_at__lte=timezone.now()).exclude(pk__in=read)
    total = 0
    while ids := list(old.values_list("pk", flat=True)[:_ROWS_AT_ONCE]):
        with transaction.atomic():
            total += StoredFile.objects.filter(pk__in=ids).delete()[0]
            transaction.on_commit(partial(file_bytes.delete, ids))
    _delete_orphans()
    return total


def _delete_orphans() -> None:
    lying = set(file_bytes.stored_ids(untouched_since=time.time() - _ORPHAN_SECONDS))
    written = Batch.objects.open().values_list("output_file", "error_file")
    known = {file_id for both in written for file_id in both}
    known |= set(StoredFile.objects.values_list("pk", flat=True))
    known |= set(Image.objects.values_list("pk", flat=True))
    file_bytes.delete(lying - known)


def check_total(user: User, num_bytes: int) -> None:
    """Of files, and images for messages. Raises Refusal."""
    kept = (StoredFile.objects.of(user.pk).live(), Image.objects.filter(owner=user))
    used = sum(rows.aggregate(total=Sum("num_bytes"))["total"] or 0 for rows in kept)
    if used + num_bytes > settings.MAX_FILE_BYTES_PER_PERSON:
        raise TooManyFiles
