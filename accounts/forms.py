"""What people type on the account pages, checked. No rows are written here."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from allauth.core import context
from django import forms
from django.contrib.auth.forms import AuthenticationForm, BaseUserCreationForm, PasswordChangeForm
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.audit import address_of
from accounts.models import Scope, User
from accounts.sign_in_throttle import TooManyAttempts, begin_attempt, forget_attempts

PASSWORD_HELP = _("At least 10 characters; not a common one, not only digits.")
EXPIRY_DAYS = [
    ("", _("Never")),
    (7, _("7 days")),
    (30, _("30 days")),
    (90, _("90 days")),
    (365, _("1 year")),
]


class SignInForm(AuthenticationForm):
    """E-mail and password. The attempt is counted before the password is looked at."""

    error_messages = {
        "invalid_login": _("That e-mail and password do not belong together."),
        "inactive": _("This account is switched off."),
    }
    username = forms.EmailField(
        label=_("E-mail"),
        widget=forms.EmailInput(attrs={"autocomplete": "username", "autofocus": True}),
    )

    def clean(self) -> dict[str, Any]:
        email = self.cleaned_data.get("username")
        if not email:
            return self.cleaned_data
        address = self.request.META.get("REMOTE_ADDR") or "0.0.0.0"
        try:
            begin_attempt(email, address)
        except TooManyAttempts as refusal:
            raise forms.ValidationError(str(refusal), code="throttled") from None
        cleaned_data = super().clean()
        forget_attempts(email, address)
        return cleaned_data

    @property
    def is_throttled(self) -> bool:
        return self.has_error(forms.forms.NON_FIELD_ERRORS, code="throttled")


class PasswordFirst:
    """What is wrong with a password is told at it; Django tells it at its repetition.

    Mixed in before a form that sets one.
    """

    def validate_password_for_user(
        self, user: User, password_field_name: str = "password2", **more: Any
    ) -> None:
        first = password_field_name.replace("2", "1")
        super().validate_password_for_user(user, password_field_name=first, **more)  # type: ignore[misc]


class NewPersonForm(PasswordFirst, BaseUserCreationForm):
    """A new person's e-mail, name and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].help_text = PASSWORD_HELP
        self.fields["password2"].help_text = ""

    class Meta:
        model = User
        fields = ["email", "name"]
        widgets = {
            "email": forms.EmailInput(attrs={"autocomplete": "username"}),
            "name": forms.TextInput(attrs={"autocomplete": "name"}),
        }


def is_own_password(user: User, password: str) -> bool:
    """Of who is signed in. The attempt counts as one at the sign-in: a borrowed session must not
    find the password out. Raises ValidationError where there were too many."""
    address = address_of(context.request)
    try:
        begin_attempt(user.email, address)
    except TooManyAttempts as refusal:
        raise forms.ValidationError(str(refusal), code="throttled") from None
    is_right = user.check_password(password)
    if is_right:
        forget_attempts(user.email, address)
    return is_right


class PasswordForm(PasswordFirst, PasswordChangeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].help_text = PASSWORD_HELP
        self.fields["new_password2"].help_text = ""

    def clean_old_password(self) -> str:
        old: str = self.cleaned_data["old_password"]
        if not is_own_password(self.user, old):
            wrong = self.error_messages["password_incorrect"]
            raise forms.ValidationError(wrong, code="password_incorrect")
        return old

    @property
    def is_throttled(self) -> bool:
        return self.has_error("old_password", code="throttled")


class NewKeyForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=100,
        widget=forms.TextInput(
            attrs={
                "placeholder": _("For example: nightly report"),
                "autocomplete": "off",
            }
        ),
    )
    expires_in = forms.TypedChoiceField(
        label=_("Expires after"), choices=EXPIRY_DAYS, coerce=int, empty_value=None, required=False
    )

    use = forms.ChoiceField(
        label=_("For"), choices=[("", _("Everything")), *Scope.choices], required=False
    )

    model = forms.ChoiceField(label=_("Model"), required=False)

    def __init__(self, *args: Any, owner: User, models: Sequence[str], **kwargs: Any) -> None:
        """Only an administrator's key can read as one. `models`: that the owner may use."""
        super().__init__(*args, **kwargs)
        self.fields["model"].choices = [("", _("All")), *((name, name) for name in models)]
        if not owner.is_superuser:
            self.fields["use"].choices = [
                choice for choice in self.fields["use"].choices if choice[0] != Scope.ADMIN_READ
            ]

    @property
    def scopes(self) -> list[str]:
        use = self.cleaned_data["use"]
        return [use] if use else []

    @property
    def models(self) -> list[str]:
        model = self.cleaned_data["model"]
        return [model] if model else []

    @property
    def expires_at(self) -> datetime.datetime | None:
        days = self.cleaned_data["expires_in"]
        return timezone.now() + datetime.timedelta(days=days) if days else None


class RotationForm(forms.Form):
    overlap_hours = forms.TypedChoiceField(
        label=_("The old secret works on for"),
        choices=[(0, _("no time")), (1, _("1 hour")), (24, _("1 day")), (168, _("1 week"))],
        coerce=int,
        initial=24,
    )

    @property
    def overlap(self) -> datetime.timedelta:
        return datetime.timedelta(hours=self.cleaned_data["overlap_hours"])
