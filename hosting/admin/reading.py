"""A person's conversations for administrators. While the policy is off there is no such page."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from accounts.audit import address_of
from accounts.models import User
from hosting.actions import reading
from hosting.actions.refusals import Refusal

_PER_PAGE = 50


@require_GET
@never_cache
def conversations(request: HttpRequest, user_id: int) -> TemplateResponse:
    person = _person(request, user_id)
    try:
        rows = reading.list_of(person, reader=request.user, address=address_of(request))
    except Refusal as refusal:
        raise Http404 from refusal
    page = Paginator(rows, _PER_PAGE).get_page(request.GET.get("page"))
    context = {"title": f"Conversations of {person}", "person": person, "page": page}
    return _answer(request, "admin/conversations.html", context)


@require_GET
@never_cache
def conversation(
    request: HttpRequest, user_id: int, conversation_id: uuid.UUID
) -> TemplateResponse:
    person = _person(request, user_id)
    try:
        row, messages = reading.read(
            person, conversation_id, reader=request.user, address=address_of(request)
        )
    except Refusal as refusal:
        raise Http404 from refusal
    context = {"title": str(row), "person": person, "conversation": row, "turns": messages}
    return _answer(request, "admin/conversation.html", context)


def _person(request: HttpRequest, user_id: int) -> User:
    if not reading.may_read(request.user):
        raise Http404
    return get_object_or_404(User, pk=user_id)


def _answer(request: HttpRequest, template: str, context: dict[str, Any]) -> TemplateResponse:
    return TemplateResponse(request, template, admin.site.each_context(request) | context)
