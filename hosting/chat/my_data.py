"""My data: take it along, or delete the account."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.audit import address_of, record_of
from accounts.models import Policy
from accounts.retention import KEPT, choose_retention
from hosting.actions.my_data import delete_person, export_of, forget_computed
from hosting.actions.reading import readings_of
from hosting.actions.refusals import Refusal

_CHOICES = (30, 90, 180, 365)


class DeletionForm(forms.Form):
    """The e-mail typed once more, so that nobody deletes by a slip."""

    email = forms.CharField(label=gettext_lazy("Your e-mail, to be sure"))


class RetentionForm(forms.Form):
    """How long the person wants things kept: sooner deleted than for everybody, never later."""

    conversation_days = forms.TypedChoiceField(
        label=gettext_lazy("Delete a conversation"), coerce=int, empty_value=None, required=False
    )
    usage_days = forms.TypedChoiceField(
        label=gettext_lazy("Delete each line of my usage"),
        coerce=int,
        empty_value=None,
        required=False,
    )

    def __init__(self, *args: Any, policy: Policy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in KEPT:
            most = getattr(policy, name)
            usual = _("never") if most is None else _("after %(days)s days") % {"days": most}
            sooner = [days for days in _CHOICES if most is None or days < most]
            self.fields[name].choices = [
                ("", usual),
                *((days, _("after %(days)s days") % {"days": days}) for days in sooner),
            ]


@login_required
@require_POST
def keep(request: HttpRequest) -> HttpResponse:
    form = RetentionForm(request.POST, policy=Policy.objects.current())
    if form.is_valid():
        choose_retention(request.user, address=address_of(request), **form.cleaned_data)
        messages.success(request, _("Saved. What is older is deleted in the night."))
    return redirect("my-data")


@login_required
@require_http_methods(["GET", "POST"])
def my_data(request: HttpRequest) -> HttpResponse:
    """POST with the person's own e-mail deletes the account."""
    form = DeletionForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        if form.cleaned_data["email"].strip().lower() == request.user.email:
            return _delete(request)
        form.add_error("email", _("This is not your e-mail."))
    policy = Policy.objects.current()
    chosen = {name: getattr(request.user, name) for name in KEPT}
    context = {
        "form": form,
        "retention_form": RetentionForm(initial=chosen, policy=policy),
        "policy": policy,
        "readings": readings_of(request.user),
    }
    return render(request, "accounts/my_data.html", context)


@login_required
@require_GET
def export(request: HttpRequest) -> HttpResponse:
    record_of(request, "person.export", target=request.user)
    response = JsonResponse(
        export_of(request.user, site=request.build_absolute_uri("/")),
        json_dumps_params={"ensure_ascii": False},
    )
    response["Content-Disposition"] = 'attachment; filename="hearth-my-data.json"'
    return response


@login_required
@require_POST
def forget(request: HttpRequest) -> HttpResponse:
    """What was computed of the person's prompts is deleted; their conversations stay."""
    try:
        forget_computed(request.user)
    except Refusal as refusal:
        messages.error(request, refusal.message)
    else:
        record_of(request, "person.forget", target=request.user)
        messages.success(request, _("What was computed of your prompts is being deleted."))
    return redirect("my-data")


def _delete(request: HttpRequest) -> HttpResponse:
    user = request.user
    try:
        delete_person(user, actor=user, address=address_of(request))
    except Refusal as refusal:
        messages.error(request, refusal.message)
        return redirect("my-data")
    logout(request)
    return redirect("sign-in")
