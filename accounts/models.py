"""People, their API keys, and the ledger of what they used.

Rows only: keys.py makes and checks keys, ledger.py writes usage, first_admin.py opens the
installation. Nothing here knows of conversations or the engine; a generation is an id only.
"""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models
from django.db.models import Q
from django.utils import timezone


class LowercaseEmailField(models.EmailField):  # type: ignore[type-arg]
    """Stores and looks up in lower case, so that `unique` means unique whatever the case typed."""

    def to_python(self, value: Any) -> Any:
        value = super().to_python(value)
        return value.lower() if isinstance(value, str) else value

    def get_prep_value(self, value: Any) -> Any:
        return self.to_python(super().get_prep_value(value))


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """A person who signs in with `password`; with None, one who cannot until it is set."""
        if not email:
            raise ValueError("A person needs an e-mail address.")
        user = self.model(email=email.lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, **fields, is_staff=True, is_superuser=True)

    def administrators(self) -> models.QuerySet[User]:
        return self.filter(is_superuser=True, is_active=True)


class User(AbstractBaseUser, PermissionsMixin):
    """A person. Signs in by e-mail; groups and permissions are Django's."""

    email = LowercaseEmailField(
        "e-mail",
        unique=True,
        error_messages={"unique": "Somebody already uses this e-mail address."},
    )
    name = models.CharField(max_length=150, blank=True)
    is_active = models.BooleanField(
        "active",
        default=True,
        help_text="Off: cannot sign in, and none of this person's keys work.",
    )
    is_staff = models.BooleanField(
        "administration", default=False, help_text="May open the administration pages."
    )
    date_joined = models.DateTimeField(default=timezone.now, editable=False)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["name"]

    class Meta:
        ordering = ["email"]
        verbose_name = "person"
        verbose_name_plural = "people"

    def __str__(self) -> str:
        return self.name or self.email

    def get_full_name(self) -> str:
        return str(self)

    def get_short_name(self) -> str:
        return self.name.split(" ")[0] or self.email.split("@")[0]


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

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at is not None

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def is_usable(self) -> bool:
        return not self.is_revoked and not self.is_expired


class TokenCounts(models.Model):
    """The ledger's token columns. Reasoning is part of completion, cached is part of prompt."""

    prompt_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)
    reasoning_tokens = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class UsageRecord(TokenCounts):
    """One line of the ledger: one ended generation. Written once, outlives its person and key."""

    class End(models.TextChoices):
        STOP = "stop"
        LENGTH = "length"
        TOOL_CALLS = "tool_calls", "tool calls"
        CANCELLED = "cancelled"
        FAILED = "failed"
        REFUSED = "refused"

    generation_id = models.UUIDField(unique=True)
    user = models.ForeignKey(User, models.SET_NULL, null=True, verbose_name="person")
    api_key = models.ForeignKey(ApiKey, models.SET_NULL, null=True, verbose_name="API key")
    client = models.CharField(max_length=100, blank=True)
    model_name = models.CharField("model", max_length=200)
    queued_seconds = models.FloatField("queued", default=0)
    ttft_seconds = models.FloatField("first token", null=True)
    duration_seconds = models.FloatField("duration", default=0)
    end = models.CharField(max_length=16, choices=End)
    error_code = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="usage_newest"),
            models.Index(fields=["user", "-created_at"], name="usage_of_person"),
            models.Index(fields=["api_key", "-created_at"], name="usage_of_key"),
            models.Index(fields=["model_name", "-created_at"], name="usage_of_model"),
        ]

    def __str__(self) -> str:
        return f"{self.model_name} {self.generation_id}"


class HourlyUsage(TokenCounts):
    """The ledger summed by hour, person, key and model.

    `payer` names person and key by their ids ("7:12", "7:-" for the chat page). Unlike the foreign
    keys it is never null, so it carries the uniqueness, and it stays when the person is deleted.
    """

    hour = models.DateTimeField()
    payer = models.CharField(max_length=48, editable=False)
    user = models.ForeignKey(User, models.SET_NULL, null=True, verbose_name="person")
    api_key = models.ForeignKey(ApiKey, models.SET_NULL, null=True, verbose_name="API key")
    model_name = models.CharField("model", max_length=200)
    requests = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-hour", "-id"]
        verbose_name = "hourly usage"
        verbose_name_plural = "hourly usage"
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "payer", "model_name"], name="hourly_usage_once"
            )
        ]
        indexes = [models.Index(fields=["user", "-hour"], name="hourly_usage_of_person")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.payer} {self.model_name}"


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
