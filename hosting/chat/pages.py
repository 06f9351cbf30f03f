"""The chat page itself. Everything in it comes from the JSON endpoints and the socket."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.csrf import ensure_csrf_cookie

from accounts.models import ApiKey, Policy
from hosting.actions.images import MAX_IMAGES_OF_MESSAGE
from hosting.chat.turns import MAX_MESSAGE_CHARACTERS


def home(request: HttpRequest) -> HttpResponse:
    """Some API clients ask HEAD / first, without a session, to see whether anybody is there."""
    if request.method == "HEAD":
        return HttpResponse()
    return chat_page(request)


@login_required
@ensure_csrf_cookie
def chat_page(request: HttpRequest, conversation_id: uuid.UUID | None = None) -> HttpResponse:
    keys = ApiKey.objects.filter(user=request.user.pk).expiring_soon(timezone.now())
    context = {
        "conversation_id": str(conversation_id) if conversation_id else "",
        "most_characters": MAX_MESSAGE_CHARACTERS,
        "most_images": MAX_IMAGES_OF_MESSAGE,
        "policy": Policy.objects.current(),
        "expiring_keys": keys.order_by("expires_at"),
    }
    return render(request, "chat.html", context)
