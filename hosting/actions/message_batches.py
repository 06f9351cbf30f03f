"""Batches that came as one body, in Anthropic's form. Another person's are not found."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from django.db import transaction

from accounts.models import ApiKey, User
from hosting.actions import file_bytes
from hosting.actions.batches import create_batch
from hosting.actions.files import delete_file, id_in, store_file
from hosting.actions.refusals import Refusal, not_found
from hosting.models import Batch, StoredFile

ENDPOINT = "/v1/messages"
PREFIX = "msgbatch_"


def create_message_batch(user: User, api_key: ApiKey, lines: Sequence[bytes]) -> Batch:
    """`lines`: what a file of them would hold. Raises Refusal."""
    num_bytes = sum(map(len, lines))
    file = store_file(user, lines, filename="message_batch.jsonl", num_bytes=num_bytes)
    with contextlib.ExitStack() as unless_made:
        unless_made.callback(delete_file, file)
        batch = create_batch(
            user,
            api_key,
            input_file_id=file.public_id,
            endpoint=ENDPOINT,
            metadata=None,
            num_lines=len(lines),
        )
        unless_made.pop_all()
    return batch


def get_message_batch(user: User, public_id: str) -> Batch:
    """Raises Refusal."""
    batch_id = id_in(public_id, PREFIX)
    rows = Batch.objects.of(user.pk).filter(endpoint=ENDPOINT)
    found = rows.filter(pk=batch_id).first() if batch_id else None
    if found is None:
        raise not_found("batch")
    return found


def check_results(batch: Batch) -> None:
    """Raises Refusal where there are none yet, or none any more."""
    if batch.is_open:
        message = "This batch has not ended: its results are there when it has."
        raise Refusal("batch_not_ended", message)
    kept = StoredFile.objects.of(batch.user_id).live().in_bulk(batch.written_files)
    for file_id in batch.written_files:
        if file_id not in kept or not file_bytes.path_of(file_id).exists():
            raise not_found("file of results any more")


def delete_message_batch(batch: Batch) -> None:
    """With its requests and results. Raises Refusal."""
    if batch.is_open:
        raise Refusal("batch_not_ended", "This batch has not ended. Cancel it first.")
    with transaction.atomic():
        files = StoredFile.objects.of(batch.user_id)
        for file in files.filter(pk__in=[batch.input_file, *batch.written_files]):
            delete_file(file)
        batch.delete()
