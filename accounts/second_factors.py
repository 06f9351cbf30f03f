"""What a person has besides a password, and what follows when that changes.

django-allauth keeps and checks the factors. A code is good once: the last step that was used stays
with its authenticator, for allauth remembers used codes in one process and for one step only.
"""

from __future__ import annotations

import logging
from typing import Any

from allauth.account.internal.flows.login import (
    clear_authentication_records,
    perform_login,
    record_authentication,
)
from allauth.account.models import Login
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.utils import decrypt, is_mfa_enabled
from allauth.socialaccount.models import SocialAccount
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.contrib.auth import update_session_auth_hash
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from accounts import audit
from accounts.access import end_sessions
from accounts.models import User

logger = logging.getLogger(__name__)


def enter(request: HttpRequest, user: User, *, by: str, next_url: str = "") -> HttpResponse:
    """The way in after a first factor: to the second one, if there is one, or to the page."""
    request.session.cycle_key()  # one planted before is worth nothing at the second factor either
    clear_authentication_records(request)
    record_authentication(request, user, by)
    answer: HttpResponse = perform_login(request, Login(user=user, redirect_url=next_url or None))
    return answer


def must_add_one(user: Any) -> bool:
    """Whether this person may do nothing before they have a second factor."""
    if settings.REQUIRE_MFA != "administrators" or not user.is_authenticated:
        return False
    return (user.is_superuser or user.is_staff) and not is_mfa_enabled(user)


def spend_code(authenticator: Authenticator, code: str) -> bool:
    """Whether `code` is right and new; it is not new again. Two at once: one is right."""
    try:
        if authenticator.type == Authenticator.Type.TOTP:
            return _spend_totp(authenticator, code)
        return bool(authenticator.wrap().validate_code(code))
    except InvalidToken:
        logger.warning("a second factor was sealed with another SECRET_KEY; it must be reset")
        return False


def _spend_totp(authenticator: Authenticator, code: str) -> bool:
    with transaction.atomic():
        locked = Authenticator.objects.select_for_update().get(pk=authenticator.pk)
        secret = decrypt(locked.data["secret"])
        for step in totp.yield_hotp_counters_from_time():
            expected = totp.format_hotp_value(totp.hotp_value(secret, step))
            if step > locked.data.get("last_step", 0) and compare_user_code(
                actual=code, expected=expected
            ):
                locked.data["last_step"] = step
                locked.save(update_fields=["data"])
                return True
    return False


def note_change(request: HttpRequest, action: str, factor: str) -> None:
    """A factor was added or removed: it goes into the record, and every other session ends."""
    person = request.user
    assert isinstance(person, User)  # the page is for people who are in
    audit.record_of(request, action, target=person, after={"factor": factor})
    end_sessions(person)
    update_session_auth_hash(request, person)


def reset(person: User, *, by: User | None, address: str = "") -> int:
    """Take all factors of a person away, and end their sessions. How many there were."""
    with transaction.atomic():
        factors = Authenticator.objects.filter(user=person)
        kinds = sorted(factors.values_list("type", flat=True))
        factors.delete()
        end_sessions(person)
        told = {"factors": kinds}
        audit.record("factor.reset", actor=by, address=address, target=person, before=told)
    return len(kinds)


def sign_out_elsewhere(request: HttpRequest) -> None:
    """End every session of the person but this one."""
    person = request.user
    assert isinstance(person, User)
    audit.record_of(request, "person.sign-out-elsewhere", target=person)
    end_sessions(person)
    update_session_auth_hash(request, person)


def overview_of(user: User) -> dict[str, Any]:
    """What the page Security shows."""
    factors = list(Authenticator.objects.filter(user=user).order_by("created_at"))
    kinds = Authenticator.Type
    return {
        "totp": next((one for one in factors if one.type == kinds.TOTP), None),
        "codes": next((one for one in factors if one.type == kinds.RECOVERY_CODES), None),
        "passkeys": [one for one in factors if one.type == kinds.WEBAUTHN],
        "identity": SocialAccount.objects.filter(user=user).first(),
    }


def told_of(user: User) -> dict[str, Any]:
    """For an export: what there is, without what opens anything."""
    factors = Authenticator.objects.filter(user=user).order_by("created_at")
    identities = SocialAccount.objects.filter(user=user)
    return {
        "factors": [
            {"name": str(one), "type": one.type, "created_at": one.created_at.isoformat()}
            for one in factors
        ],
        "identities": [{"subject": one.uid, "claims": one.extra_data} for one in identities],
    }


def unused_codes(authenticator: Authenticator | None) -> int:
    if authenticator is None:
        return 0
    used = bin(authenticator.data["used_mask"]).count("1")
    return int(settings.MFA_RECOVERY_CODE_COUNT - used)
