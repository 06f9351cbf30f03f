"""Opens a fresh installation: a one-time URL, or the environment, makes its first administrator.

Nobody becomes administrator by being the first to visit. The URL carries a random token that only
the terminal shows; the database keeps its hash, and it is void once an administrator exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import transaction
from django.urls import reverse

from accounts.models import SetupToken, User
from accounts.one_time_tokens import hash_of, new_token


class SetupRefused(Exception):
    """This set-up link is not valid (any more)."""


def new_setup_url(base_url: str) -> str | None:
    """A new one-time URL, which voids earlier ones. None when an administrator exists."""
    if has_administrator():
        return None
    token = new_token()
    with transaction.atomic():
        SetupToken.objects.all().delete()
        SetupToken.objects.create(token_hash=hash_of(token))
    return base_url.rstrip("/") + reverse("setup", args=[token])


def has_administrator() -> bool:
    return User.objects.administrators().exists()


def check_setup_token(token: str) -> None:
    """Raises SetupRefused unless `token` may make the first administrator now."""
    if has_administrator() or not SetupToken.objects.filter(token_hash=hash_of(token)).exists():
        raise SetupRefused


def create_first_admin(token: str, *, email: str, name: str, password: str) -> User:
    """Spend `token` on an administrator. Raises SetupRefused; of two at once, one is refused."""
    with transaction.atomic():
        # The row's lock is the gate: who deletes it has the token, who finds none is too late
        deleted, _ = SetupToken.objects.filter(token_hash=hash_of(token)).delete()
        if not deleted or has_administrator():
            raise SetupRefused
        return _make_administrator(email, name, password)


def ensure_admin_from_environment() -> User | None:
    """The administrator of HEARTH_ADMIN_EMAIL and _PASSWORD, if there is none at all yet.

    Raises ImproperlyConfigured for one without the other, and for those that no form would take.
    """
    email = os.environ.get("HEARTH_ADMIN_EMAIL", "").strip()
    password = os.environ.get("HEARTH_ADMIN_PASSWORD", "")
    if not email and not password:
        return None
    with transaction.atomic():
        if has_administrator():
            return None
        if not email or not password:
            missing = "HEARTH_ADMIN_PASSWORD" if email else "HEARTH_ADMIN_EMAIL"
            raise ImproperlyConfigured(
                "HEARTH_ADMIN_EMAIL and HEARTH_ADMIN_PASSWORD make the first administrator "
                f"together; {missing} is not set."
            )
        _check("HEARTH_ADMIN_EMAIL", User._meta.get_field("email").run_validators, email)
        _check("HEARTH_ADMIN_PASSWORD", validate_password, password)
        SetupToken.objects.all().delete()
        return _make_administrator(email, "", password)


def _check(variable: str, validate: Callable[[str], object], value: str) -> None:
    try:
        validate(value)
    except ValidationError as error:
        raise ImproperlyConfigured(f"{variable}: {' '.join(error.messages)}") from error


def _make_administrator(email: str, name: str, password: str) -> User:
    """A new person, or one that a command made before."""
    user = User.objects.filter(email=email).first() or User(email=email)
    user.name = name or user.name
    user.is_active = user.is_staff = user.is_superuser = True
    user.is_service = False
    user.set_password(password)
    user.save()
    return user
