"""Proves who one is: a second factor at sign-in, a passkey alone, and again before changes."""

from __future__ import annotations

from typing import Any

from allauth.account.views import ReauthenticateView
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.base.views import ReauthenticateView as ReauthenticateByCodeView
from allauth.mfa.webauthn.views import LoginWebAuthnView, ReauthenticateWebAuthnView
from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from accounts.factor_forms import CodeAgainForm, CodeForm, PasskeyForm, PasswordAgainForm
from accounts.second_factors import overview_of


class SecondFactorView(AuthenticateView):
    """Between the password and the door. Nobody is signed in yet."""

    form_class = CodeForm
    webauthn_form_class = PasskeyForm
    template_name = "accounts/second_factor.html"

    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(), status=_status_of(form))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        has = overview_of(self.stage.login.user)
        return super().get_context_data(**kwargs) | {"has": has}


class PasskeySignInView(LoginWebAuthnView):
    """A passkey that knows whose it is, and asked for a finger or a PIN: both factors in one."""

    def form_invalid(self, form: Any) -> HttpResponse:
        messages.error(self.request, _("This passkey opens no account here."))
        return HttpResponseRedirect(reverse("sign-in"))


class _OnceMore:
    """Before something that a borrowed session must not do. Leads back to what was asked for."""

    template_name = "accounts/confirm.html"

    @method_decorator(never_cache)
    def dispatch(self, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().dispatch(*args, **kwargs)  # type: ignore[misc, no-any-return]

    def form_invalid(self, form: Any) -> HttpResponse:
        page = self.get_context_data(form=form)  # type: ignore[attr-defined]
        return self.render_to_response(page, status=_status_of(form))  # type: ignore[attr-defined]


class ConfirmByPasswordView(_OnceMore, ReauthenticateView):
    form_class = PasswordAgainForm


class ConfirmByCodeView(_OnceMore, ReauthenticateByCodeView):
    form_class = CodeAgainForm


class ConfirmByPasskeyView(_OnceMore, ReauthenticateWebAuthnView):
    form_class = PasskeyForm
    template_name = "accounts/confirm_passkey.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | kwargs


def _status_of(form: Any) -> int:
    return 429 if form.is_throttled else 200
