"""Lets people in: an invitation is a link that somebody sends by whatever means they have.

Administrators invite everybody; the manager of a group invites members into that group.
"""

from __future__ import annotations

import datetime
import secrets

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from accounts import audit
from accounts.models import Invitation, User
from accounts.one_time_tokens import hash_of, new_token

VALID_FOR = datetime.timedelta(days=7)


class InvitationRefused(Exception):
    """This invitation is not valid (any more)."""


class EmailTaken(Exception):
    """Somebody else has come in under this e-mail meanwhile."""


class MayNotInvite(Exception):
    """You may not invite people so."""


def groups_managed_by(user: User) -> QuerySet[Group]:
    return Group.objects.all() if user.is_superuser else user.manages.all()


def people_seen_by(user: User) -> QuerySet[User]:
    """An administrator sees everybody, a manager the people of their groups."""
    if user.is_superuser:
        return User.objects.all()
    return User.objects.filter(groups__in=groups_managed_by(user)).distinct()


def may_invite(user: User) -> bool:
    return user.is_superuser or user.manages.exists()


def invite(
    by: User, *, role: str, group: Group | None = None, email: str = "", address: str = ""
) -> tuple[Invitation, str]:
    """The invitation and the path of its link, which cannot be shown again."""
    if not _may_send(by, role, group):
        raise MayNotInvite
    token = new_token()
    with transaction.atomic():
        invitation = Invitation.objects.create(
            token_hash=hash_of(token),
            email=email.lower(),
            role=role,
            group=group,
            invited_by=by,
            expires_at=timezone.now() + VALID_FOR,
        )
        told = {"role": role, "group": group and group.name, "expires_at": invitation.expires_at}
        audit.record("invitation.create", actor=by, address=address, target=email, after=told)
    return invitation, reverse("accept-invitation", args=[token])


def withdraw(invitation: Invitation, *, by: User, address: str = "") -> None:
    """Raises InvitationRefused when it was used meanwhile. Withdrawing twice does it once."""
    with transaction.atomic():
        still_open = Invitation.objects.open(timezone.now()).filter(pk=invitation.pk)
        if still_open.update(withdrawn_at=timezone.now()):
            audit.record("invitation.withdraw", actor=by, address=address, target=invitation)
        elif Invitation.objects.filter(pk=invitation.pk).exclude(used_at=None).exists():
            raise InvitationRefused


def check_invitation(token: str) -> Invitation:
    """Raises InvitationRefused. Who invited must still be able to."""
    found = _valid(token_hash=hash_of(token))
    if found is None:
        raise InvitationRefused
    return found


def accept(token: str, *, email: str, name: str, password: str, address: str = "") -> User:
    """The new person, in their group and role. Of two at once one is refused.

    Raises InvitationRefused, EmailTaken.
    """
    with transaction.atomic():
        invitation = check_invitation(token)
        return _spend(invitation, email=email, name=name, password=password, address=address)


def accept_by_email(email: str, *, name: str, address: str = "") -> User | None:
    """The same for somebody who has proved to own the e-mail that was invited, if one was."""
    with transaction.atomic():
        found = _valid(email=email.lower())
        if found is None:
            return None
        return _spend(found, email=email, name=name, password=None, address=address)


def _spend(
    invitation: Invitation, *, email: str, name: str, password: str | None, address: str
) -> User:
    still_open = Invitation.objects.open(timezone.now()).filter(pk=invitation.pk)
    if not still_open.update(used_at=timezone.now()):
        raise InvitationRefused
    is_administrator = invitation.role == Invitation.Role.ADMINISTRATOR
    try:
        user = User.objects.create_user(
            email, password, name=name, is_staff=is_administrator, is_superuser=is_administrator
        )
    except IntegrityError as taken:
        raise EmailTaken from taken
    if invitation.group is not None:
        user.groups.add(invitation.group)
        if invitation.role == Invitation.Role.MANAGER:
            user.manages.add(invitation.group)
    told = {"role": invitation.role, "invited_by": invitation.invited_by.email}
    audit.record("invitation.accept", actor=user, address=address, target=user, after=told)
    return user


def create_service_account(name: str, *, by: User, address: str = "") -> User:
    """A program's account: it has keys and limits of its own, and nobody can sign in as it."""
    with transaction.atomic():
        email = f"{secrets.token_hex(6)}@service.invalid"
        user = User.objects.create_user(email, None, name=name, is_service=True)
        audit.record("service.create", actor=by, address=address, target=name)
    return user


def _valid(**which: str) -> Invitation | None:
    now = timezone.now()
    found = Invitation.objects.open(now).filter(**which, invited_by__is_active=True)
    found = found.select_related("group", "invited_by")
    return next((one for one in found if _may_send(one.invited_by, one.role, one.group)), None)


def _may_send(by: User, role: str, group: Group | None) -> bool:
    if by.is_superuser:
        return True
    is_member = role == Invitation.Role.MEMBER
    return is_member and group is not None and by.manages.filter(pk=group.pk).exists()
