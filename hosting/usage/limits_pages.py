"""The pages of limits: my own, those of one of my keys, and a person's for administrators."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from accounts.keys import keys_managed_by
from accounts.models import ApiKey, User
from hosting.usage.limits import limits_shown


@login_required
@require_GET
@never_cache
def my_limits(request: HttpRequest) -> HttpResponse:
    return _page(request, request.user)


@login_required
@require_GET
@never_cache
def key_limits(request: HttpRequest, key_id: int) -> HttpResponse:
    """Somebody else's key is not there."""
    keys = keys_managed_by(request.user).select_related("user")
    key = get_object_or_404(keys, pk=key_id)
    return _page(request, key.user, key)


@login_required
@require_GET
@never_cache
def person_limits(request: HttpRequest, user_id: int) -> HttpResponse:
    if not request.user.is_superuser:
        raise Http404
    return _page(request, get_object_or_404(User, pk=user_id))


def _page(request: HttpRequest, person: User, key: ApiKey | None = None) -> HttpResponse:
    context = {
        "person": person,
        "key": key,
        "is_own": person == request.user,
        "limits": limits_shown(person, key),
        "keys": [] if key else [one for one in person.api_keys.all() if one.is_usable],
    }
    return render(request, "usage/limits.html", context)
