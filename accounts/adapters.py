"""Where django-allauth asks us: who may come in, in which words, how secrets are kept.

AccountAdapter is the one door: every sign-in, by whatever means, ends in its `login`.
"""

from __future__ import annotations

import contextlib
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts import oidc, sealed
from accounts.audit import address_of, record_of
from accounts.models import User
from accounts.sign_in_throttle import TooManyAttempts, begin_attempt

_SAID = {
    "socialaccount/messages/account_connected.txt": gettext_lazy("Connected."),
    "socialaccount/messages/account_connected_other.txt": gettext_lazy(
        "This identity opens another account here."
    ),
}


class AccountAdapter(DefaultAccountAdapter):
    """No sign-up, no mails: people are invited, or come from the provider."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_login_stages(self) -> list[str]:
        return ["allauth.mfa.stages.AuthenticateStage"]

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        return refused_page(request, _("This account is switched off."), user=user)

    def login(self, request: HttpRequest, user: User) -> None:
        if not user.is_active or user.is_service:  # between the two factors
            raise ImmediateHttpResponse(self.respond_user_inactive(request, user))
        super().login(request, user)
        records = get_authentication_records(request, user)
        ways = [one.get("type") or one["method"] for one in records]
        record_of(request, "sign-in", target=user, after={"by": ways})

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Who has a second factor shows it again: a password alone must not take it away."""
        methods = super().get_reauthentication_methods(user)
        if user.is_authenticated and is_mfa_enabled(user):
            return [one for one in methods if one["id"] != "reauthenticate"]
        return methods

    def is_safe_url(self, url: str | None) -> bool:
        hosts = {self.request.get_host()}
        return url_has_allowed_host_and_scheme(url, hosts, require_https=self.request.is_secure())

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str = "",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Our views say what happened themselves, except where they are not asked."""
        if message_template in _SAID:
            messages.add_message(request, level, _SAID[message_template])


class MfaAdapter(DefaultMFAAdapter):
    """What a second factor needs to be checked is kept encrypted."""

    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": gettext_lazy("That is not right, or was used before. Try again."),
    }

    def encrypt(self, text: str) -> str:
        return sealed.seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return sealed.open_sealed(encrypted_text)

    def generate_authenticator_name(self, user: User, type: Authenticator.Type) -> str:
        number = Authenticator.objects.filter(user=user, type=type).count() + 1
        return _("Passkey") if number == 1 else _("Passkey %(number)s") % {"number": number}


class OidcAdapter(DefaultSocialAccountAdapter):
    """The provider says who somebody is; accounts/oidc.py says who that is here."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        try:
            oidc.check_answer(sociallogin)
            if sociallogin.state.get("process") == "login":
                oidc.find_person(request, sociallogin)
        except oidc.SignInRefused as refusal:
            raise ImmediateHttpResponse(refused_page(request, str(refusal))) from None

    def on_authentication_error(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        raise ImmediateHttpResponse(failed_page(request))

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: SocialAccount) -> str:
        return reverse("security")


def failed_page(request: HttpRequest) -> HttpResponse:
    """The provider cannot be reached, refused, or answered with what cannot be believed."""
    message = _("The sign-in with %(name)s did not succeed. Try again.")
    return refused_page(request, message % {"name": settings.OIDC_NAME})


def refused_page(request: HttpRequest, message: str, *, user: User | None = None) -> HttpResponse:
    """Nobody comes in, and the record says that somebody tried. As with passwords it does not say
    so for ever: an answer that no provider gave can be sent by anybody, any number of times."""
    with contextlib.suppress(TooManyAttempts):
        begin_attempt(user.email if user else "", address_of(request))
        record_of(request, "sign-in.fail", target=user or "unknown account", after={"why": message})
    return render(request, "accounts/sign_in_refused.html", {"message": message}, status=403)
