"""API keys: rows only. accounts/keys.py makes and checks them."""

from __future__ import annotations

import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.models.people import User


class Scope(models.TextChoices):
    """Parts of the API that a key can be meant for. Listing the models is always allowed."""

    ANSWERS = "answers", "chat, completions, responses and messages"
    VECTORS = "vectors", "embeddings and reranking"


def check_scopes(scopes: Any) -> None:
    if not isinstance(scopes, list) or not set(scopes) <= set(Scope.values):
        raise ValidationError(f"This must be a list of: {', '.join(Scope.values)}.")


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self, now: datetime.datetime) -> ApiKeyQuerySet:
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
        return not self.scopes or scope in self.scopes

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at is not None

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def is_usable(self) -> bool:
        return not self.is_revoked and not self.is_expired
