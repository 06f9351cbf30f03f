"""The page behind the one-time set-up URL: makes the first administrator and signs them in."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.first_admin import (
    SetupRefused,
    check_setup_token,
    create_first_admin,
    has_administrator,
)
from accounts.forms import NewPersonForm
from accounts.second_factors import enter


@require_http_methods(["GET", "POST"])
@never_cache
def set_up(request: HttpRequest, token: str) -> HttpResponse:
    """A wrong token learns nothing and writes nothing."""
    try:
        check_setup_token(token)
        form = NewPersonForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            return _open_installation(request, token, form)
    except SetupRefused:
        context = {"has_administrator": has_administrator()}
        return render(request, "accounts/setup_refused.html", context, status=404)
    return render(request, "accounts/setup.html", {"form": form})


def _open_installation(request: HttpRequest, token: str, form: NewPersonForm) -> HttpResponse:
    user = create_first_admin(
        token,
        email=form.cleaned_data["email"],
        name=form.cleaned_data["name"],
        password=form.cleaned_data["password1"],
    )
    return enter(request, user, by="set-up link")
