"""The page Security: what a person has besides the password. allauth's views in our pages."""

from __future__ import annotations

from typing import Any

from allauth.account.decorators import reauthentication_required
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.views import AddWebAuthnView, RemoveWebAuthnView
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts import oidc, second_factors
from accounts.factor_forms import NewAppForm, NewPasskeyForm
from accounts.second_factors import must_add_one, note_change, overview_of, unused_codes


@login_required
@require_GET
@never_cache
def security(request: HttpRequest) -> HttpResponse:
    has = overview_of(request.user)
    context = {
        "has": has,
        "num_codes": unused_codes(has["codes"]),
        "must_add_one": must_add_one(request.user),
        "provider": settings.OIDC_NAME if oidc.is_configured() else "",
    }
    return render(request, "accounts/security.html", context)


@login_required
@require_POST
def sign_out_elsewhere(request: HttpRequest) -> HttpResponse:
    second_factors.sign_out_elsewhere(request)
    messages.success(request, _("You are signed out everywhere else."))
    return redirect("security")


@method_decorator(never_cache, name="dispatch")
class _Change(LoginRequiredMixin):
    """One change of the factors: it and its line in the record happen together."""

    action: str
    factor: str
    said = ""
    success_url: Any = reverse_lazy("security")

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().form_valid(form)  # type: ignore[misc]
            note_change(self.request, self.action, self.factor)  # type: ignore[attr-defined]
        if self.said:
            messages.success(self.request, self.said)  # type: ignore[attr-defined]
        return response


class AddAppView(_Change, ActivateTOTPView):
    form_class = NewAppForm
    template_name = "accounts/add_app.html"
    action, factor = "factor.add", Authenticator.Type.TOTP.value


class RemoveAppView(_Change, DeactivateTOTPView):
    template_name = "accounts/remove_factor.html"
    action, factor = "factor.remove", Authenticator.Type.TOTP.value
    said = gettext_lazy("The authenticator app is removed.")
    extra_context = {"what": gettext_lazy("your authenticator app")}


class AddPasskeyView(_Change, AddWebAuthnView):
    form_class = NewPasskeyForm
    template_name = "accounts/add_passkey.html"
    action, factor = "factor.add", Authenticator.Type.WEBAUTHN.value
    said = gettext_lazy("The passkey is added. Other sessions were signed out.")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | kwargs


class RemovePasskeyView(_Change, RemoveWebAuthnView):
    template_name = "accounts/remove_factor.html"
    action, factor = "factor.remove", Authenticator.Type.WEBAUTHN.value
    said = gettext_lazy("The passkey is removed.")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"what": self.object.wrap().name}


class NewCodesView(_Change, GenerateRecoveryCodesView):
    template_name = "accounts/new_codes.html"
    success_url = reverse_lazy("mfa_view_recovery_codes")
    action, factor = "factor.renew", Authenticator.Type.RECOVERY_CODES.value


@method_decorator(never_cache, name="dispatch")
class CodesView(ViewRecoveryCodesView):
    """The first look is the only one."""

    template_name = "accounts/codes.html"


@login_required
@require_POST
@reauthentication_required(app="allauth.socialaccount")
def disconnect(request: HttpRequest) -> HttpResponse:
    """The identity at the provider no longer opens this account; a password must be left."""
    if not request.user.has_usable_password():
        messages.error(request, _("It is your only way to sign in."))
    elif oidc.disconnect(request):
        messages.success(request, _("The connection is removed."))
    return redirect("security")
