"""The keys page: list, create (the secret is in that one answer and nowhere else), revoke."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.forms import NewKeyForm
from accounts.keys import create_api_key, revoke_api_key
from accounts.models import ApiKey


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def list_keys(request: HttpRequest) -> HttpResponse:
    """The person's keys, and the form for another one."""
    form = NewKeyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        return _create_key(request, form)
    keys = list(ApiKey.objects.filter(user=request.user))
    context = {
        "form": form,
        "usable_keys": [key for key in keys if key.is_usable],
        "ended_keys": [key for key in keys if not key.is_usable],
    }
    return render(request, "accounts/keys.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def revoke_key(request: HttpRequest, key_id: int) -> HttpResponse:
    """GET asks, POST does. Somebody else's key is not there."""
    key = get_object_or_404(ApiKey, pk=key_id, user=request.user)
    if request.method == "GET":
        return render(request, "accounts/key_revoke.html", {"key": key})
    revoke_api_key(key)
    messages.success(request, _("Key “%(name)s” is revoked.") % {"name": key.name})
    return redirect("api-keys")


def _create_key(request: HttpRequest, form: NewKeyForm) -> HttpResponse:
    key, secret = create_api_key(
        user=request.user, name=form.cleaned_data["name"], expires_at=form.expires_at
    )
    context = {
        "key": key,
        "secret": secret,
        "base_url": request.build_absolute_uri("/v1"),
        "model_name": _example_model(),
    }
    return render(request, "accounts/key_created.html", context, status=201)


def _example_model() -> str:
    """The model that the examples name. Settings say who knows, for accounts knows no models."""
    return import_string(settings.ACCOUNTS_EXAMPLE_MODEL)()
