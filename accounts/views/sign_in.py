"""Sign in, sign out, change the password: Django's views, our forms, the throttle's status.

A right password leads to the second factor of who has one (accounts/second_factors.py).
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts import oidc
from accounts.audit import record_of
from accounts.first_admin import has_administrator
from accounts.forms import PasswordForm, SignInForm
from accounts.models import AuditRecord, User
from accounts.second_factors import enter
from accounts.sign_in_throttle import WINDOW


class SignInView(views.LoginView):
    """`next` is followed on this host only; the session id changes with each step."""

    form_class = SignInForm
    template_name = "accounts/sign_in.html"
    redirect_authenticated_user = True

    def get_redirect_url(self) -> str:
        """`next`, unless it leads back here and so in a circle."""
        url = super().get_redirect_url()
        return "" if url.partition("?")[0] == self.request.path else url

    def form_valid(self, form: SignInForm) -> HttpResponse:
        url = self.get_success_url()
        return enter(self.request, form.get_user(), by="password", next_url=url)

    def form_invalid(self, form: SignInForm) -> HttpResponse:
        """What was typed is told only if it is an account: people type passwords there."""
        account = User.objects.filter(email=form.cleaned_data.get("username", "")).first()
        target = str(account or "unknown account")
        if not form.is_throttled:
            record_of(self.request, "sign-in.fail", target=target)
        elif not _is_recorded(target):
            record_of(self.request, "sign-in.throttle", target=target)
        status = 429 if form.is_throttled else 200
        return self.render_to_response(self.get_context_data(form=form), status=status)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = {
            "has_administrator": has_administrator(),
            "provider": settings.OIDC_NAME if oidc.is_configured() else "",
        }
        return super().get_context_data(**kwargs) | context


def _is_recorded(target: str) -> bool:
    """Once in each window: who goes on would fill the disk."""
    since = timezone.now() - WINDOW
    throttles = AuditRecord.objects.filter(action="sign-in.throttle", target=target)
    return throttles.filter(created_at__gt=since).exists()


class PasswordView(views.PasswordChangeView):
    """Changing it ends every other session: their hash of the password no longer fits."""

    form_class = PasswordForm
    template_name = "accounts/password.html"
    success_url = reverse_lazy("password")

    def form_valid(self, form: Any) -> HttpResponse:
        record_of(self.request, "person.password", target=self.request.user)
        messages.success(self.request, _("Password changed. You are signed out everywhere else."))
        return super().form_valid(form)

    def form_invalid(self, form: Any) -> HttpResponse:
        status = 429 if form.is_throttled else 200
        return self.render_to_response(self.get_context_data(form=form), status=status)


class SignOutView(views.LogoutView):
    """By POST only. The session is deleted on the server."""
