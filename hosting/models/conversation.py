"""What a person sees: conversations, whose messages form a tree. It knows no engine."""

from __future__ import annotations

import re
import uuid

from django.conf import settings
from django.db import models
from django.db.models import Case, Exists, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Concat, Lower, StrIndex, Substr
from django.db.models.lookups import GreaterThan
from django.utils import timezone

from hosting.models.generation import Generation
from hosting.models.tool_server import ToolServer

# Of what was found, one more to see a word begin: a line of the list has room for some 35
_CHARACTERS_BEFORE = 13
_SNIPPET_CHARACTERS = 120
_CUT = "…"


def from_a_word(snippet: str) -> str:
    """A snippet that was cut in a word, from the next one on, but not beyond what was found."""
    if not snippet.startswith(_CUT):
        return snippet
    end = len(_CUT) + _CHARACTERS_BEFORE
    before, found = snippet[len(_CUT) : end], snippet[end:]
    return _CUT + re.split(r"\s+", before, maxsplit=1)[-1] + found


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def of(self, person_id: int) -> ConversationQuerySet:
        return self.filter(owner_id=person_id)

    def matching(self, text: str) -> ConversationQuerySet:
        """Those with `text` in title or message, with a `snippet` of the first such message."""
        said = Message.objects.filter(conversation=OuterRef("pk"), content__icontains=text)
        begins = StrIndex(Lower("content"), Lower(Value(text))) - _CHARACTERS_BEFORE
        snippet = Case(
            When(
                GreaterThan(begins, 1),
                then=Concat(Value(_CUT), Substr("content", begins, _SNIPPET_CHARACTERS)),
            ),
            default=Substr("content", 1, _SNIPPET_CHARACTERS),
        )
        return self.filter(Q(title__icontains=text) | Exists(said)).annotate(
            snippet=Subquery(said.values_list(snippet)[:1])
        )

    def with_is_generating(self) -> ConversationQuerySet:
        running = Generation.objects.open().filter(
            conversation=OuterRef("pk"), kind=Generation.Kind.CHAT
        )
        return self.annotate(is_generating=Exists(running))


class Conversation(models.Model):
    """A tree of messages; `active_leaf` ends the branch that the page shows."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="conversations"
    )
    title = models.CharField(max_length=200, blank=True)
    is_title_set_by_person = models.BooleanField(default=False)
    is_pinned = models.BooleanField(default=False)
    system_prompt = models.TextField(blank=True)
    model_name = models.CharField(max_length=100, blank=True)
    tool_servers = models.ManyToManyField(ToolServer, blank=True, related_name="+")
    active_leaf = models.ForeignKey(
        "Message", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = ConversationQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at", "-id"]
        indexes = [
            models.Index(fields=["owner", "-updated_at", "-id"], name="conversations_newest")
        ]

    def __str__(self) -> str:
        return self.title or "New conversation"


class Message(models.Model):
    """One turn. Messages with the same parent are versions of one another."""

    class Role(models.TextChoices):
        USER = "user"
        ASSISTANT = "assistant"
        TOOL = "tool"  # the calls of the answer before it, and what came of them

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(Conversation, models.CASCADE, related_name="messages")
    parent = models.ForeignKey(
        "self", models.CASCADE, null=True, blank=True, related_name="children"
    )
    role = models.CharField(max_length=16, choices=Role)
    content = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    tool_calls = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["created_at", "id"]
        indexes = [models.Index(fields=["conversation", "created_at"], name="messages_in_order")]

    def __str__(self) -> str:
        return f"{self.role} {self.id}"
