"""API keys: rows only. accounts/keys.py makes and checks them."""

from __future__ import annotations

import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.models.people import User
from accounts.prepared import Given

EXPIRES_SOON = datetime.timedelta(days=7)  # from then on its person is told


class Scope(models.TextChoices):
    """Parts of the API that a key can be meant for. Listing the models is always allowed."""

    ANSWERS = "answers", "chat, completions, responses and messages"
    VECTORS = "vectors", "embeddings and reranking"
    ADMIN_READ = "admin_read", "usage and live figures of everybody, to read"


def check_scopes(scopes: Any) -> None:
    if not isinstance(scopes, list) or not set(scopes) <= set(Scope.values):
        raise ValidationError(f"This must be a list of: {', '.join(Scope.values)}.")


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def expiring_soon(self, now: datetime.datetime) -> ApiKeyQuerySet:
        """As `ApiKey.expires_soon`."""
        return self.usable(now).filter(expires_at__lte=now + EXPIRES_SOON, replaced_by=None)

    def usable(self, now: datetime.datetime | Given) -> ApiKeyQuerySet:
        return self.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True
        )


class ApiKey(models.Model):
    """A credential of a script. Only a keyed hash of the secret is kept; `prefix` may be shown."""

    user = models.ForeignKey(User, models.CASCADE, related_name="api_keys", verbose_name="person")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=32, unique=True, editable=False)
    key_hash = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(
        default=list,
        blank=True,
        validators=[check_scopes],
        help_text="What it may be used for. None named: everything.",
    )
    replaced_by = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_address = models.GenericIPAddressField(null=True, blank=True, editable=False)
    last_used_client = models.CharField(max_length=100, blank=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def may(self, scope: str) -> bool:
        """To read as an administrator a key must be made for it, and its person still be one."""
        if scope == Scope.ADMIN_READ:
            return scope in self.scopes and self.user.is_superuser
        return not self.scopes or scope in self.scopes

    @property
    def models(self) -> list[str]:
        """Those that it is limited to. None: it may use what its person may."""
        quota = getattr(self, "quota", None)
        return quota.allowed_models if quota is not None else []

    @property
    def expires_soon(self) -> bool:
        """It works, but not for much longer, and nothing has taken its place."""
        if self.expires_at is None or self.replaced_by_id is not None or not self.is_usable:
            return False
        return self.expires_at <= timezone.now() + EXPIRES_SOON

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at is not None

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def is_usable(self) -> bool:
        return not self.is_revoked and not self.is_expired
