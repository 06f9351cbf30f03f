"""Slows down who guesses passwords. In the database, so for every process and over restarts.

An attempt counts from the moment it begins, so a hundred at once are no way around the limit.
Success clears the account's attempts from that address; age clears the rest.
"""

from __future__ import annotations

import datetime
import math

from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts.models import SignInAttempt

WINDOW = datetime.timedelta(minutes=15)
MAX_ON_ACCOUNT = 5  # attempts on one e-mail from one address
MAX_FROM_ADDRESS = 40  # attempts from one address, an office behind one router included


class TooManyAttempts(Exception):
    """Too many attempts to sign in."""

    def __init__(self, wait: datetime.timedelta) -> None:
        self.wait_minutes = math.ceil(wait / datetime.timedelta(minutes=1))
        super().__init__(f"Too many attempts. Try again in {self.wait_minutes} min.")


def begin_attempt(email: str, address: str) -> None:
    """Count one attempt before its password is looked at. Raises TooManyAttempts."""
    now = timezone.now()
    SignInAttempt.objects.filter(attempted_at__lte=now - WINDOW).delete()
    attempt = SignInAttempt.objects.create(email_hash=_hash(email), address=address)
    from_address = SignInAttempt.objects.filter(address=address)
    on_account = from_address.filter(email_hash=attempt.email_hash)
    for attempts, limit in ((on_account, MAX_ON_ACCOUNT), (from_address, MAX_FROM_ADDRESS)):
        if attempts.count() > limit:
            # One that was not tried does not count, or a patient guesser would lock the account
            attempt.delete()
            oldest = attempts.order_by("attempted_at").values_list("attempted_at", flat=True)
            raise TooManyAttempts((oldest.first() or now) + WINDOW - now)


def forget_attempts(email: str, address: str) -> None:
    """After a success."""
    SignInAttempt.objects.filter(email_hash=_hash(email), address=address).delete()


def _hash(email: str) -> str:
    normal = email.strip().lower()
    return salted_hmac("accounts.sign_in_throttle", normal, algorithm="sha256").hexdigest()
