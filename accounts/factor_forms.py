"""What is shown to prove who one is, once more: a code, a passkey, the password.

Each attempt is counted before it is looked at, by the throttle that counts passwords.
"""

from __future__ import annotations

from typing import Any

from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.base.internal.flows import post_authentication
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn.forms import AddWebAuthnForm, AuthenticateWebAuthnForm
from django import forms
from django.utils.translation import gettext_lazy as _

from accounts import sign_in_throttle
from accounts.audit import address_of, record_of
from accounts.forms import is_own_password
from accounts.models import User
from accounts.second_factors import spend_code
from accounts.sign_in_throttle import TooManyAttempts


class _Throttled:
    """For the forms of one person's second factors."""

    user: User

    @property
    def is_throttled(self) -> bool:
        return any(self.has_error(name, code="throttled") for name in self.fields)

    def _begin(self) -> None:
        try:
            sign_in_throttle.begin_second_factor(self.user.pk, address_of(context.request))
        except TooManyAttempts as refusal:
            raise forms.ValidationError(str(refusal), code="throttled") from None

    def _succeed(self) -> None:
        sign_in_throttle.forget_second_factor(self.user.pk)

    def _fail(self, factor: str) -> None:
        record_of(context.request, "factor.fail", target=self.user, after={"factor": factor})


class CodeForm(_Throttled, AuthenticateForm):
    """A code of the app, or one of the recovery codes."""

    is_once_more = False

    code = forms.CharField(
        label=_("Code"),
        max_length=20,
        help_text=_("From your authenticator app, or one of your recovery codes."),
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": True}
        ),
    )

    def clean_code(self) -> str:
        self._begin()
        code = self.cleaned_data["code"]
        typed = Authenticator.objects.filter(user=self.user).exclude(type="webauthn")
        for authenticator in typed:
            if spend_code(authenticator, code):
                self.authenticator = authenticator
                self._succeed()
                return code
        self._fail("code")
        raise forms.ValidationError(
            _("That code is not right, or was used before. Wait for the next one."), code="wrong"
        )

    def save(self) -> None:
        post_authentication(context.request, self.authenticator, reauthenticated=self.is_once_more)
        if self.authenticator.type == Authenticator.Type.RECOVERY_CODES:
            record_of(context.request, "factor.recovery_code", target=self.user)


class CodeAgainForm(CodeForm):
    is_once_more = True


class PasskeyForm(_Throttled, AuthenticateWebAuthnForm):
    def clean_credential(self) -> Authenticator:
        self._begin()
        try:
            authenticator = super().clean_credential()
        except forms.ValidationError:
            self._fail("passkey")
            raise
        self._succeed()
        return authenticator


class NewAppForm(ActivateTOTPForm):
    code = forms.CharField(
        label=_("The code it shows now"),
        max_length=20,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )


class NewPasskeyForm(AddWebAuthnForm):
    passwordless = None  # the browser is asked for one that can, and those that cannot are welcome
    name = forms.CharField(
        label=_("Name"),
        max_length=60,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class PasswordAgainForm(forms.Form):
    """The password, before something that a borrowed session must not do."""

    password = forms.CharField(
        label=_("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        if not is_own_password(self.user, password):
            raise forms.ValidationError(_("That is not your password."), code="wrong")
        return password

    @property
    def is_throttled(self) -> bool:
        return self.has_error("password", code="throttled")
