"""People. Groups and permissions are Django's."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import Group, PermissionsMixin
from django.db import models
from django.utils import timezone
from django.utils.crypto import salted_hmac


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

    def hold(self, pk: int) -> None:
        """Until the transaction ends nothing begins for this person (actions/admission.py). Who
        locks other rows of this person as well does this first."""
        list(self.filter(pk=pk).select_for_update(no_key=True).values_list("pk"))

    def administrators(self) -> models.QuerySet[User]:
        """Those who may do everything, and can sign in to do it."""
        return self.filter(is_superuser=True, is_active=True, is_service=False)

    def is_last_administrator(self, person: User) -> bool:
        """Within a transaction: until it ends nobody else stops being one. It holds them, as `hold`
        does one, and comes before it."""
        if not person.is_superuser:
            return False
        held = self.administrators().order_by("pk").select_for_update(no_key=True)
        return [*held] == [person]


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
        help_text="Off: signed out at once, what is being answered ends, and neither this "
        "person nor their keys get in until it is on again. Nothing is deleted.",
    )
    is_staff = models.BooleanField(
        "administration", default=False, help_text="May open the administration pages."
    )
    is_service = models.BooleanField(
        "service account", default=False, help_text="A program: it has keys, and cannot sign in."
    )
    manages = models.ManyToManyField(
        Group,
        blank=True,
        related_name="managers",
        help_text="Groups into which this person may invite, and whose usage they see.",
    )
    # Sooner than the installation's policy has it; None: as that
    conversation_days = models.PositiveIntegerField(null=True, editable=False)
    usage_days = models.PositiveIntegerField(null=True, editable=False)
    date_joined = models.DateTimeField(default=timezone.now, editable=False)
    # A new number ends every session of this person, as a new password does
    session_epoch = models.PositiveIntegerField(default=0, editable=False)

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

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """Django's own, with the epoch in it."""
        if not self.session_epoch:
            return super()._get_session_auth_hash(secret)  # type: ignore[misc, no-any-return]
        salted = salted_hmac(
            "accounts.session", f"{self.session_epoch}:{self.password}", secret, algorithm="sha256"
        )
        return salted.hexdigest()

    def get_full_name(self) -> str:
        return str(self)

    def get_short_name(self) -> str:
        return self.name.split(" ")[0] or self.email.split("@")[0]
