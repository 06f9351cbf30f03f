"""Slows down who guesses passwords or codes. In the database: for every process, over restarts.

An attempt counts from the moment it begins, so a hundred at once are no way around the limit.
Success clears the account's attempts from that address; age clears the rest.
"""

from __future__ import annotations

import datetime
import ipaddress
import math

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts.models import SignInAttempt

WINDOW = datetime.timedelta(minutes=15)
MAX_ON_ACCOUNT = 5  # attempts on one e-mail from one address
MAX_ON_SECOND_FACTOR = 5  # attempts on one person's codes and passkeys
MAX_FROM_ADDRESS = 40  # attempts from one address, an office behind one router included


class TooManyAttempts(Exception):
    """Too many attempts to sign in."""

    def __init__(self, wait: datetime.timedelta) -> None:
        self.wait_minutes = math.ceil(wait / datetime.timedelta(minutes=1))
        super().__init__(f"Too many attempts. Try again in {self.wait_minutes} min.")


def begin_attempt(email: str, address: str) -> None:
    """Count one attempt before its password is looked at. Raises TooManyAttempts."""
    attempt = _count(_hash(email), _connection_of(address))
    from_address = SignInAttempt.objects.filter(address=attempt.address)
    on_account = from_address.filter(email_hash=attempt.email_hash)
    _check(attempt, on_account, MAX_ON_ACCOUNT)
    _check(attempt, from_address, MAX_FROM_ADDRESS)


def begin_second_factor(person_id: int, address: str) -> None:
    """The same for a code or a passkey, from wherever: who asks has the password already."""
    attempt = _count(_second_factor_of(person_id), address)
    on_account = SignInAttempt.objects.filter(email_hash=attempt.email_hash)
    _check(attempt, on_account, MAX_ON_SECOND_FACTOR)


def forget_attempts(email: str, address: str) -> None:
    """After a success."""
    address = _connection_of(address)
    SignInAttempt.objects.filter(email_hash=_hash(email), address=address).delete()


def forget_second_factor(person_id: int) -> None:
    SignInAttempt.objects.filter(email_hash=_second_factor_of(person_id)).delete()


def _count(email_hash: str, address: str) -> SignInAttempt:
    now = timezone.now()
    # What is ahead by more than clocks differ was before the clock was set back
    recent = Q(attempted_at__gt=now - WINDOW, attempted_at__lt=now + WINDOW)
    SignInAttempt.objects.exclude(recent).delete()
    return SignInAttempt.objects.create(email_hash=email_hash, address=address)


def _check(attempt: SignInAttempt, attempts: QuerySet[SignInAttempt], limit: int) -> None:
    if attempts.count() <= limit:
        return
    # One that was not tried does not count, or a patient guesser would lock the account
    attempt.delete()
    oldest = attempts.order_by("attempted_at").values_list("attempted_at", flat=True).first()
    now = timezone.now()
    raise TooManyAttempts((oldest or now) + WINDOW - now)


def _connection_of(address: str) -> str:
    """With IPv6 the first half of an address: whoever has one connection may choose the other."""
    ip = ipaddress.ip_address(address)
    if ip.version == 4 or ip.ipv4_mapped:
        return address
    return str(ipaddress.IPv6Address(int(ip) >> 64 << 64))


def _second_factor_of(person_id: int) -> str:
    return _hash(f"second factor of {person_id}")


def _hash(email: str) -> str:
    normal = email.strip().lower()
    return salted_hmac("accounts.sign_in_throttle", normal, algorithm="sha256").hexdigest()
