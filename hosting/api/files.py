"""/v1/files: what batches read and write, in OpenAI's form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from hosting.actions import file_bytes
from hosting.actions.database_threads import in_database_thread
from hosting.actions.files import delete_file, get_file, get_readable_file, store_file
from hosting.api.answer_view import AwaitedView
from hosting.api.errors import invalid
from hosting.api.pages_of_rows import page_of, read_wanted
from hosting.api.schema_shapes import DeletedFile, Error, FileList, FileObject
from hosting.models import StoredFile

LEAST_KEPT_SECONDS, MOST_KEPT_SECONDS = 3600, 30 * 24 * 3600
_MOST_LISTED = 10_000
_PIECE_BYTES = 256 * 1024
_UPLOAD = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "purpose": {"type": "string", "enum": ["batch"]},
    },
}
_REFUSALS = dict.fromkeys((400, 401, 403, 404, 500, 503), Error)
_MORE_REFUSALS = dict.fromkeys((413, 415, 507), Error)


class Files(AwaitedView):
    parser_classes = [MultiPartParser]

    @extend_schema(
        operation_id="create_file",
        summary="Upload a file of requests",
        request={"multipart/form-data": _UPLOAD},
        responses={200: FileObject, **_REFUSALS, **_MORE_REFUSALS},
    )
    def post(self, http_request: Request) -> Response:
        upload = http_request.FILES.get("file")
        if upload is None:
            raise invalid("file", "Send the file as a form's field 'file'.")
        if http_request.data.get("purpose") != StoredFile.Purpose.BATCH:
            raise invalid("purpose", "'purpose' must be batch: files serve nothing else here.")
        file = store_file(
            http_request.user,
            upload.chunks(_PIECE_BYTES),
            filename=upload.name or "file",
            num_bytes=upload.size or 0,
            kept_seconds=_kept_seconds(http_request.data),
        )
        return Response(shown_file(file))

    @extend_schema(
        operation_id="list_files",
        summary="Your files",
        parameters=[
            *(OpenApiParameter(name) for name in ("after", "limit", "purpose")),
            OpenApiParameter("order", enum=["asc", "desc"]),
        ],
        responses={200: FileList, **_REFUSALS},
    )
    def get(self, http_request: Request) -> Response:
        query, user = http_request.query_params, http_request.user
        wanted = read_wanted(query, usual=_MOST_LISTED, most=_MOST_LISTED)
        after = get_file(user, query["after"]) if "after" in query else None
        rows = StoredFile.objects.of(user.pk).live()
        if "purpose" in query:
            rows = rows.filter(purpose=query["purpose"].replace("\0", ""))
        return Response(page_of(rows, after, wanted, shown_file))


class OneFile(AwaitedView):
    @extend_schema(
        operation_id="retrieve_file",
        summary="One of your files",
        responses={200: FileObject, **_REFUSALS},
    )
    def get(self, http_request: Request, file_id: str) -> Response:
        return Response(shown_file(get_file(http_request.user, file_id)))

    @extend_schema(
        operation_id="delete_file",
        summary="Delete one of your files",
        responses={200: DeletedFile, **_REFUSALS},
    )
    def delete(self, http_request: Request, file_id: str) -> Response:
        file = get_file(http_request.user, file_id)
        delete_file(file)
        return Response({"id": file.public_id, "object": "file", "deleted": True})


class FileContent(AwaitedView):
    @extend_schema(
        operation_id="download_file",
        summary="What is in one of your files",
        responses={
            (200, "application/jsonl"): OpenApiTypes.BINARY,
            **{(status, "application/json"): shape for status, shape in _REFUSALS.items()},
        },
    )
    async def get(self, http_request: Request, file_id: str) -> StreamingHttpResponse:
        file = await in_database_thread(get_readable_file)(http_request.user, file_id)
        return content_response(file)


def content_response(file: StoredFile) -> StreamingHttpResponse:
    """Read piece by piece, as fast as the caller takes it."""
    pieces = _pieces(file_bytes.path_of(file.pk))
    response = StreamingHttpResponse(pieces, content_type="application/jsonl")
    response["Content-Length"] = str(file.num_bytes)
    response["Content-Disposition"] = f'attachment; filename="{file.public_id}.jsonl"'
    return response


def shown_file(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.public_id,
        "object": "file",
        "bytes": file.num_bytes,
        "created_at": int(file.created_at.timestamp()),
        "expires_at": int(file.expires_at.timestamp()),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as content:
        while piece := await asyncio.to_thread(content.read, _PIECE_BYTES):
            yield piece


def _kept_seconds(form: Any) -> int | None:
    """OpenAI's `expires_after`, as forms spell it. Raises ApiError."""
    if not any(name.startswith("expires_after") for name in form):
        return None
    if form.get("expires_after[anchor]") != "created_at":
        raise invalid("expires_after[anchor]", "This must be created_at.")
    told = form.get("expires_after[seconds]", "")
    if told.isascii() and told.isdigit() and len(told) < 9:
        return _checked_seconds(int(told), "expires_after[seconds]")
    raise invalid("expires_after[seconds]", "This must be a whole number.")


def _checked_seconds(seconds: int, field: str) -> int:
    """Raises ApiError."""
    if not LEAST_KEPT_SECONDS <= seconds <= MOST_KEPT_SECONDS:
        message = f"This must be from {LEAST_KEPT_SECONDS} to {MOST_KEPT_SECONDS}."
        raise invalid(field, message)
    return seconds
