"""Tool servers that an administrator lets people use in the chat, and which tools of each."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from accounts.models import User


class ToolServerQuerySet(models.QuerySet["ToolServer"]):
    def open_to(self, user: User) -> ToolServerQuerySet:
        """The enabled ones that everybody may use, and those of this person's groups. A group that
        is deleted opens none to others."""
        of_their_groups = self.model.objects.filter(allowed_groups__user=user)
        return self.filter(is_enabled=True).filter(
            Q(is_for_everybody=True) | Q(pk__in=of_their_groups.values("pk"))
        )


class ToolServer(models.Model):
    """`listed_tools` is what the server said of itself when an administrator asked it: models are
    told that, whatever it says later. A tool is offered only when it is allowed too."""

    name = models.CharField(
        max_length=40,
        unique=True,
        validators=[RegexValidator(r"\A[A-Za-z0-9][A-Za-z0-9 ._-]*\Z")],
        help_text="What people see: letters, digits, spaces and . _ -",
    )
    url = models.CharField(
        "address",
        max_length=500,
        help_text="Of its streamable HTTP transport, like https://tools.example.org/mcp",
    )
    may_be_private = models.BooleanField(
        "in a private network",
        default=False,
        help_text="It may be on this machine or in your own network, and without https. "
        "People then reach through it what it reaches.",
    )
    sealed_token = models.TextField(blank=True, editable=False)
    is_enabled = models.BooleanField("enabled", default=False)
    timeout_seconds = models.PositiveIntegerField(
        "longest call (s)",
        default=30,
        validators=[MinValueValidator(1), MaxValueValidator(300)],
        help_text="1 to 300. What takes longer is given up.",
    )
    is_for_everybody = models.BooleanField("for everybody", default=False)
    allowed_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="tool_servers",
        help_text="Their people may use the server. None chosen, and not for everybody: nobody.",
    )
    listed_tools = models.JSONField(default=list, editable=False)
    listed_at = models.DateTimeField(null=True, editable=False)
    allowed_tools = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ToolServerQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def usable_tools(self) -> list[dict[str, Any]]:
        """The listed ones that are allowed, each with name, description and input_schema."""
        return [one for one in self.listed_tools if one["name"] in self.allowed_tools]

    def allows(self, tool_name: str) -> bool:
        return any(one["name"] == tool_name for one in self.usable_tools)
