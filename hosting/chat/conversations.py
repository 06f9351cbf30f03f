"""The list of conversations, and one of them."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from hosting.actions import conversations as actions
from hosting.actions import export as exports
from hosting.actions.refusals import Refusal
from hosting.chat import payloads
from hosting.chat.endpoint import endpoint, validated
from hosting.chat.tool_calls import ToolServerIds
from hosting.fields import Flag, Text
from hosting.models import Conversation

_PAGE_ROWS = 50
_MAX_SYSTEM_PROMPT = 100_000


class Changes(serializers.Serializer[Any]):
    title = Text(required=False)
    is_pinned = Flag(required=False)
    system_prompt = Text(required=False, allow_blank=True, max_length=_MAX_SYSTEM_PROMPT)
    model = Text(required=False)
    active_leaf = serializers.UUIDField(required=False)
    tool_servers = ToolServerIds(required=False)


def _list(request: HttpRequest) -> JsonResponse:
    """Pinned ones come whole with the first page; the others newest first, page by page."""
    mine = Conversation.objects.of(request.user.pk or 0).with_is_generating()
    text = request.GET.get("q", "").strip()
    if text:
        mine = mine.matching(text)
    before = request.GET.get("before", "")
    pinned = [] if before else list(mine.filter(is_pinned=True))
    rows = list(_older_than(mine.filter(is_pinned=False), before)[: _PAGE_ROWS + 1])
    page, is_more = rows[:_PAGE_ROWS], len(rows) > _PAGE_ROWS
    lines = [payloads.conversation_line(row) for row in (*pinned, *page)]
    return JsonResponse({"conversations": lines, "next": _cursor(page[-1]) if is_more else None})


def _show(request: HttpRequest, conversation_id: uuid.UUID) -> JsonResponse:
    row = actions.get_conversation(request.user, conversation_id)
    messages = [payloads.message(message) for message in actions.messages_of(row)]
    return JsonResponse({"conversation": payloads.conversation(row), "messages": messages})


def _change(request: HttpRequest, conversation_id: uuid.UUID) -> JsonResponse:
    row = actions.get_conversation(request.user, conversation_id)
    actions.update_conversation(row, validated(request, Changes))
    return JsonResponse({"conversation": payloads.conversation(row)})


def _delete(request: HttpRequest, conversation_id: uuid.UUID) -> HttpResponse:
    actions.delete_conversation(actions.get_conversation(request.user, conversation_id))
    return HttpResponse(status=204)


def _export(request: HttpRequest, conversation_id: uuid.UUID) -> HttpResponse:
    row = actions.get_conversation(request.user, conversation_id)
    site = request.build_absolute_uri("/")
    match request.GET.get("format", "json"):
        case "json":
            response: HttpResponse = JsonResponse(
                exports.as_json(row, site=site),
                json_dumps_params={"indent": 2, "ensure_ascii": False},
            )
            suffix = "json"
        case "markdown":
            response = HttpResponse(
                exports.as_markdown(row, site=site), "text/markdown; charset=utf-8"
            )
            suffix = "md"
        case _:
            raise Refusal("invalid_value", "The format is json or markdown.", field="format")
    response["Content-Disposition"] = f'attachment; filename="conversation-{row.pk}.{suffix}"'
    return response


def _cursor(row: Conversation) -> str:
    return f"{row.updated_at.isoformat()}~{row.pk}"


def _older_than(rows: Any, cursor: str) -> Any:
    if not cursor:
        return rows
    moment, row_id = _read_cursor(cursor)
    return rows.filter(Q(updated_at__lt=moment) | Q(updated_at=moment, id__lt=row_id))


def _read_cursor(cursor: str) -> tuple[datetime.datetime, uuid.UUID]:
    text, _, row_id = cursor.partition("~")
    try:
        moment = parse_datetime(text.replace(" ", "+"))  # an unescaped + in a query is a space
        if moment is None or moment.tzinfo is None:
            raise ValueError(text)
        return moment.astimezone(datetime.UTC), uuid.UUID(row_id)
    except (ValueError, OverflowError):  # the last hours of the year 9999 are later in UTC
        raise Refusal("invalid_value", "This is no place in the list.", field="before") from None


conversation_list = endpoint(GET=_list)
conversation = endpoint(GET=_show, PATCH=_change, DELETE=_delete)
export = endpoint(GET=_export)
