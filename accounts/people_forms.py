"""What is typed to let people in, checked. No rows are written here."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import Group
from django.utils.translation import gettext_lazy as _

from accounts.forms import NewPersonForm
from accounts.invitations import groups_managed_by
from accounts.models import Invitation, User


class InvitationForm(forms.Form):
    """A manager chooses among their groups, and invites members only."""

    email = forms.EmailField(
        label=_("E-mail"),
        required=False,
        widget=forms.EmailInput(attrs={"placeholder": _("Optional"), "autocomplete": "off"}),
    )
    role = forms.ChoiceField(label=_("Role"), choices=Invitation.Role.choices)
    group = forms.ModelChoiceField(
        label=_("Group"), queryset=Group.objects.none(), required=False, empty_label=_("None")
    )

    def __init__(self, *args: Any, by: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].required = settings.OIDC_MAY_LINK_EMAIL
        group = self.fields["group"]
        group.queryset = groups_managed_by(by)
        if not by.is_superuser:
            member = Invitation.Role.MEMBER
            self.fields["role"].choices = [(member.value, member.label)]
            group.required, group.empty_label = True, None
        elif not group.queryset.exists():
            del self.fields["group"]
            self.fields["role"].choices = [
                choice for choice in Invitation.Role.choices if choice[0] != Invitation.Role.MANAGER
            ]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("role") == Invitation.Role.MANAGER and not data.get("group"):
            self.add_error("group", _("A manager needs a group."))
        return data


class AcceptForm(NewPersonForm):
    """Who accepts an invitation. Where an e-mail is enough to become the person who has it, nobody
    takes another's before they come: it is the one that was invited.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        is_told = bool(self.initial.get("email"))
        self.fields["email"].disabled = settings.OIDC_MAY_LINK_EMAIL and is_told

    @property
    def answers(self) -> dict[str, str]:
        data = self.cleaned_data
        return {"email": data["email"], "name": data["name"], "password": data["password1"]}


class ServiceAccountForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=150,
        widget=forms.TextInput(attrs={"placeholder": _("What runs as it"), "autocomplete": "off"}),
    )
