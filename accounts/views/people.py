"""People, for administrators and for managers of groups: who is there, invite, service accounts."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.audit import address_of
from accounts.invitations import (
    EmailTaken,
    InvitationRefused,
    accept,
    check_invitation,
    create_service_account,
    invite,
    may_invite,
    people_seen_by,
    withdraw,
)
from accounts.models import User
from accounts.models.invitation import Invitation, InvitationQuerySet
from accounts.people_forms import AcceptForm, InvitationForm, ServiceAccountForm
from accounts.second_factors import enter


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def people(request: HttpRequest) -> HttpResponse:
    """A manager sees the people of their groups."""
    if not may_invite(request.user):
        raise PermissionDenied
    form = InvitationForm(request.POST or None, by=request.user)
    if request.method == "POST" and form.is_valid():
        return _show_link(request, form)
    return render(request, "accounts/people.html", _context(request.user, form))


def _context(user: User, form: InvitationForm) -> dict[str, Any]:
    return {
        "form": form,
        "people": people_seen_by(user).prefetch_related("groups", "manages").order_by("email"),
        "invitations": _invitations_of(user)
        .open(timezone.now())
        .select_related("group", "invited_by"),
        "service_form": ServiceAccountForm() if user.is_superuser else None,
    }


def _show_link(request: HttpRequest, form: InvitationForm) -> HttpResponse:
    invitation, path = invite(request.user, **form.cleaned_data, address=address_of(request))
    context = {"invitation": invitation, "link": request.build_absolute_uri(path)}
    return render(request, "accounts/invited.html", context, status=201)


@login_required
@require_POST
def withdraw_invitation(request: HttpRequest, invitation_id: int) -> HttpResponse:
    invitation = get_object_or_404(_invitations_of(request.user), pk=invitation_id)
    try:
        withdraw(invitation, by=request.user, address=address_of(request))
    except InvitationRefused:  # while the page was open
        messages.error(request, _("Too late: the invitation was used already."))
    else:
        messages.success(request, _("The invitation is withdrawn. Its link no longer works."))
    return redirect("people")


@login_required
@require_POST
def add_service_account(request: HttpRequest) -> HttpResponse:
    if not request.user.is_superuser:
        raise PermissionDenied
    form = ServiceAccountForm(request.POST)
    if form.is_valid():
        name = form.cleaned_data["name"]
        create_service_account(name, by=request.user, address=address_of(request))
        messages.success(request, _("Service account “%(name)s” is there.") % {"name": name})
    return redirect("people")


@require_http_methods(["GET", "POST"])
@never_cache
def accept_invitation(request: HttpRequest, token: str) -> HttpResponse:
    """A wrong token learns nothing and writes nothing."""
    try:
        invitation = check_invitation(token)
        form = AcceptForm(request.POST or None, initial={"email": invitation.email})
        if request.method == "POST" and form.is_valid():
            user = accept(token, **form.answers, address=address_of(request))
            return enter(request, user, by="invitation")
    except InvitationRefused:
        return render(request, "accounts/invitation_refused.html", status=404)
    except EmailTaken:
        form.add_error("email", form.instance.unique_error_message(User, ("email",)))
    return render(request, "accounts/accept.html", {"form": form, "invitation": invitation})


def _invitations_of(user: User) -> InvitationQuerySet:
    """That this person may withdraw."""
    found = Invitation.objects.all()
    return found if user.is_superuser else found.filter(invited_by=user)
