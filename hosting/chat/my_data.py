"""My data: take it along, or delete the account."""

from __future__ import annotations

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
from hosting.actions.my_data import delete_person, export_of, forget_computed
from hosting.actions.refusals import Refusal


class DeletionForm(forms.Form):
    """The e-mail typed once more, so that nobody deletes by a slip."""

    email = forms.CharField(label=gettext_lazy("Your e-mail, to be sure"))


@login_required
@require_http_methods(["GET", "POST"])
def my_data(request: HttpRequest) -> HttpResponse:
    """POST with the person's own e-mail deletes the account."""
    form = DeletionForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        if form.cleaned_data["email"].strip().lower() == request.user.email:
            return _delete(request)
        form.add_error("email", _("This is not your e-mail."))
    return render(request, "accounts/my_data.html", {"form": form})


@login_required
@require_GET
def export(request: HttpRequest) -> HttpResponse:
    record_of(request, "person.export", target=request.user)
    response = JsonResponse(export_of(request.user), json_dumps_params={"ensure_ascii": False})
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
