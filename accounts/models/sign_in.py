"""What signing in leaves behind: the set-up link's hash, attempts that failed."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class SetupToken(models.Model):
    """The hash of the token in the one-time set-up URL. At most one row, none once it is used."""

    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"set-up link of {self.created_at:%Y-%m-%d %H:%M}"


class SignInAttempt(models.Model):
    """An attempt to sign in that has not succeeded.

    The e-mail is hashed, for people mistype their passwords there.
    """

    email_hash = models.CharField(max_length=64)
    address = models.GenericIPAddressField()
    attempted_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [
            models.Index(fields=["email_hash", "address"], name="attempts_on_account"),
            models.Index(fields=["address", "attempted_at"], name="attempts_from_address"),
        ]

    def __str__(self) -> str:
        return f"attempt from {self.address}"
