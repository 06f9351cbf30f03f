"""Who somebody from the OpenID Connect provider is here, and in which groups.

Issuer and subject decide, together. An e-mail decides only once, at the first sign-in, and only
when it is verified: an open invitation to it makes the account; a person who has it is joined if
the settings say so; an unknown one is made if the settings say so.
"""

from __future__ import annotations

import hmac
from typing import Any

from allauth.account.internal.emailkit import valid_email_or_none
from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts import audit
from accounts.invitations import EmailTaken, InvitationRefused, accept_by_email
from accounts.models import User


class SignInRefused(Exception):
    """The provider's answer lets nobody in. The message is for the person."""


def is_configured() -> bool:
    return bool(settings.SOCIALACCOUNT_PROVIDERS)


def check_answer(answer: SocialLogin) -> None:
    """That it answers this browser's question, and tells of one person. Raises SignInRefused."""
    told = answer.account.extra_data
    token, userinfo = told["id_token"], told.get("userinfo") or {}
    asked = answer.state.get("nonce") or ""
    if not asked or not hmac.compare_digest(str(token.get("nonce", "")), asked):
        raise SignInRefused(_("The answer does not belong to this sign-in. Try again."))
    if token.get("sub") != userinfo.get("sub", token.get("sub")):
        raise SignInRefused(_("The provider told of two different people."))


def find_person(request: HttpRequest, answer: SocialLogin) -> None:
    """Leaves in `answer` who it is, with today's groups. Raises SignInRefused."""
    claims = _claims(answer)
    address = audit.address_of(request)
    try:
        with transaction.atomic():
            if not answer.is_existing:
                answer.connect(request, _person_by_email(claims, address))
            if answer.user.is_active:
                take_groups(answer.user, claims, address)
    # Two windows at once: the other one was first
    except (IntegrityError, InvitationRefused, EmailTaken):
        raise SignInRefused(_("Somebody signed in so at the same moment. Try again.")) from None


def note_identity(request: HttpRequest, sociallogin: SocialLogin, **more: Any) -> None:
    """An identity was connected to a person: on allauth's signal, whichever way it came about."""
    audit.record(
        "identity.add",
        actor=sociallogin.user,
        address=audit.address_of(request),
        target=sociallogin.user,
        after={"subject": sociallogin.account.uid},
    )


def disconnect(request: HttpRequest) -> bool:
    """Whether there was an identity to take away from the person behind the request."""
    with transaction.atomic():
        subjects = SocialAccount.objects.filter(user=request.user)
        told = {"subject": ", ".join(subjects.values_list("uid", flat=True))}
        was_connected = bool(subjects.delete()[0])
        if was_connected:
            audit.record_of(request, "identity.remove", target=request.user, before=told)
    return was_connected


def take_groups(person: User, claims: dict[str, Any], address: str = "") -> None:
    """The mapped groups become what the provider says; others are left alone."""
    told = _values(claims.get(settings.OIDC_GROUPS_CLAIM))
    wanted = {group for value, group in settings.OIDC_GROUPS.items() if value in told}
    mapped = set(settings.OIDC_GROUPS.values())
    has = set(person.groups.filter(name__in=mapped).values_list("name", flat=True))
    before, after = {"groups": sorted(has)}, {"groups": sorted(wanted)}
    if settings.OIDC_ADMIN_GROUP:
        before["administrator"] = person.is_superuser
        after["administrator"] = _is_administrator(person, told)
    if before == after:
        return
    person.groups.remove(*Group.objects.filter(name__in=has - wanted))
    person.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in wanted - has))
    if "administrator" in after and before["administrator"] != after["administrator"]:
        person.is_superuser = person.is_staff = after["administrator"]
        person.save(update_fields=["is_superuser", "is_staff"])
    differing = audit.changes(before, after)
    audit.record("person.groups", actor=None, address=address, target=person, **differing)


def _is_administrator(person: User, told: set[str]) -> bool:
    """The last administrator stays one, or a slip at the provider would lock everybody out."""
    if settings.OIDC_ADMIN_GROUP in told:
        return True
    return User.objects.is_last_administrator(person)


def _person_by_email(claims: dict[str, Any], address: str) -> User:
    """Who gets this identity, which nobody has yet. Raises SignInRefused."""
    email = valid_email_or_none(str(claims.get("email") or ""))
    is_verified = claims.get("email_verified") is True or settings.OIDC_TRUSTS_EMAIL
    if not email or not is_verified:
        raise SignInRefused(_("The provider does not vouch for your e-mail address."))
    person = User.objects.filter(email=email).first()
    if person is not None:
        return _joined(person)
    name = str(claims.get("name") or "").replace("\x00", "")[:150]
    invited = accept_by_email(email, name=name, address=address)
    if invited is not None:
        return invited
    if not settings.OIDC_MAY_CREATE:
        raise SignInRefused(
            _("You have no account here yet. Ask your administrator to invite you.")
        )
    person = User.objects.create_user(email, None, name=name)
    audit.record("person.add", actor=None, address=address, target=person, after={"email": email})
    return person


def _joined(person: User) -> User:
    if not settings.OIDC_MAY_LINK_EMAIL:
        raise SignInRefused(
            _("There is an account with your e-mail. Sign in to it, and connect %(name)s there.")
            % {"name": settings.OIDC_NAME}
        )
    if not person.is_active or person.is_service:
        raise SignInRefused(_("This account is switched off."))
    return person


def _claims(answer: SocialLogin) -> dict[str, Any]:
    told = answer.account.extra_data
    return {**told["id_token"], **(told.get("userinfo") or {})}


def _values(claim: Any) -> set[str]:
    """A claim may be one value or a list of them."""
    if isinstance(claim, str):
        return {claim}
    return {one for one in claim if isinstance(one, str)} if isinstance(claim, list) else set()
