"""The keys pages: list, create, replace (a secret is in that one answer and nowhere else), revoke.

People manage their own keys, administrators also those of service accounts.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.audit import address_of
from accounts.forms import NewKeyForm, RotationForm
from accounts.keys import (
    NotRotatable,
    create_api_key,
    keys_managed_by,
    revoke_api_key,
    rotate_api_key,
)
from accounts.models import ApiKey, User


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def list_keys(request: HttpRequest) -> HttpResponse:
    """The person's keys, and the form for another one."""
    return _keys_page(request, request.user)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def service_keys(request: HttpRequest, user_id: int) -> HttpResponse:
    """A service account's keys. For everybody but administrators there are none."""
    if not request.user.is_superuser:
        raise Http404
    return _keys_page(request, get_object_or_404(User, pk=user_id, is_service=True))


@login_required
@require_http_methods(["GET", "POST"])
def revoke_key(request: HttpRequest, key_id: int) -> HttpResponse:
    """GET asks, POST does. Somebody else's key is not there."""
    key = get_object_or_404(keys_managed_by(request.user), pk=key_id)
    if request.method == "GET":
        return render(request, "accounts/key_revoke.html", {"key": key, "back": _list_of(key)})
    revoke_api_key(key, by=request.user, address=address_of(request))
    messages.success(request, _("Key “%(name)s” is revoked.") % {"name": key.name})
    return redirect(_list_of(key))


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def rotate_key(request: HttpRequest, key_id: int) -> HttpResponse:
    """GET asks how long the old secret shall work on, POST shows the new one."""
    key = get_object_or_404(keys_managed_by(request.user), pk=key_id)
    form = RotationForm(request.POST or None)
    if request.method == "GET" or not form.is_valid():
        context = {"key": key, "form": form, "back": _list_of(key)}
        return render(request, "accounts/key_rotate.html", context)
    try:
        successor, secret = rotate_api_key(
            key, overlap=form.overlap, by=request.user, address=address_of(request)
        )
    except NotRotatable as refusal:
        messages.error(request, type(refusal).__doc__ or "")
        return redirect(_list_of(key))
    return _show_secret(request, successor, secret)


def _keys_page(request: HttpRequest, owner: User) -> HttpResponse:
    form = NewKeyForm(request.POST or None, owner=owner, models=_models_of(owner))
    if request.method == "POST" and form.is_valid():
        key, secret = create_api_key(
            user=owner,
            name=form.cleaned_data["name"],
            expires_at=form.expires_at,
            scopes=form.scopes,
            models=form.models,
            by=request.user,
            address=address_of(request),
        )
        return _show_secret(request, key, secret)
    keys = list(ApiKey.objects.filter(user=owner).select_related("quota"))
    context = {
        "owner": owner,
        "form": form,
        "usable_keys": [key for key in keys if key.is_usable],
        "ended_keys": [key for key in keys if not key.is_usable],
    }
    return render(request, "accounts/keys.html", context)


def _show_secret(request: HttpRequest, key: ApiKey, secret: str) -> HttpResponse:
    context = {
        "key": key,
        "secret": secret,
        "base_url": request.build_absolute_uri("/v1"),
        "model_name": next(iter(key.models), None) or _example_model(),
        "back": _list_of(key),
    }
    return render(request, "accounts/key_created.html", context, status=201)


def _list_of(key: ApiKey) -> str:
    """The address of the page where the key is listed."""
    name = "service-keys" if key.user.is_service else "api-keys"
    return reverse(name, args=[key.user_id] if key.user.is_service else [])


def _example_model() -> str:
    """The model that the examples name. Settings say who knows, for accounts knows no models."""
    name: str = import_string(settings.ACCOUNTS_EXAMPLE_MODEL)()
    return name


def _models_of(owner: User) -> list[str]:
    names: list[str] = import_string(settings.ACCOUNTS_MODELS_OF)(owner)
    return names
