"""Invitations: links that make an account, once, until they expire."""

from __future__ import annotations

import datetime

from django.contrib.auth.models import Group
from django.db import models
from django.utils import timezone

from accounts.models.people import User


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def open(self, now: datetime.datetime) -> InvitationQuerySet:
        return self.filter(used_at=None, withdrawn_at=None, expires_at__gt=now)


class Invitation(models.Model):
    """Only a hash of the link's token is kept, so the link is shown once, like a key."""

    class Role(models.TextChoices):
        MEMBER = "member"
        MANAGER = "manager", "manager of the group"
        ADMINISTRATOR = "administrator"

    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    email = models.EmailField("e-mail", blank=True)
    role = models.CharField(max_length=16, choices=Role, default=Role.MEMBER)
    group = models.ForeignKey(Group, models.CASCADE, null=True, blank=True)
    invited_by = models.ForeignKey(User, models.CASCADE, related_name="+")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, editable=False)
    withdrawn_at = models.DateTimeField(null=True, editable=False)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"invitation of {self.email or 'somebody'} as {self.get_role_display()}"
