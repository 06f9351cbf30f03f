"""Calls of tools in conversations: what a model was offered, what it called, what came of it."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from hosting.models.conversation import Conversation, Message
from hosting.models.tool_server import ToolServer


class ToolOffer(models.Model):
    """One for each answer that may call tools. `tools`: by the name that the model knows, the
    server's id and the tool's own name. `options`, `client`: how the person asked, for the answer
    after the calls is made in the same way."""

    message = models.OneToOneField(
        Message, models.CASCADE, primary_key=True, related_name="tool_offer"
    )
    tools = models.JSONField()
    options = models.JSONField(default=dict)
    client = models.CharField(max_length=100, blank=True)

    def __str__(self) -> str:
        return f"offer of {self.message_id}"


class ToolCallQuerySet(models.QuerySet["ToolCall"]):
    def open(self) -> ToolCallQuerySet:
        """Those whose answer waits for them."""
        return self.filter(state__in=ToolCall.OPEN_STATES)

    def of(self, person_id: int) -> ToolCallQuerySet:
        return self.filter(message__conversation__owner_id=person_id)


class ToolCall(models.Model):
    """One call, of the message that holds the calls of an answer and what came of them.

    WAITING → ALLOWED → RUNNING → DONE | FAILED; WAITING → DECLINED; RUNNING → LOST, whoever ran it
    died or was too late: it may have run, so nobody runs it again unless the person says so, LOST →
    ALLOWED | DECLINED. Every open one → STOPPED.

    Each change is a conditional UPDATE: whoever makes it does what it stands for, and nobody else.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        ALLOWED = "allowed"
        RUNNING = "running"
        LOST = "lost"
        DONE = "done"
        FAILED = "failed"
        DECLINED = "declined"
        STOPPED = "stopped"

    OPEN_STATES = (State.WAITING, State.ALLOWED, State.RUNNING, State.LOST)
    ASKING_STATES = (State.WAITING, State.LOST)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    message = models.ForeignKey(Message, models.CASCADE, related_name="calls")
    number = models.PositiveIntegerField()
    call_id = models.CharField(max_length=200)
    called_name = models.TextField()  # as the model wrote it
    server = models.ForeignKey(ToolServer, models.SET_NULL, null=True, related_name="+")
    server_name = models.CharField(max_length=40, blank=True)
    tool_name = models.CharField(max_length=128, blank=True)
    arguments = models.TextField()
    state = models.CharField(max_length=16, choices=State, default=State.WAITING)
    result = models.TextField(blank=True)
    changed_at = models.DateTimeField(default=timezone.now)
    lost_at = models.DateTimeField(null=True)  # when a running one is given up

    objects = ToolCallQuerySet.as_manager()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["message", "number"], name="a_call_once"),
        ]
        indexes = [models.Index(fields=["state"], name="tool_calls_by_state")]

    def __str__(self) -> str:
        return f"call {self.id}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN_STATES


class ToolConsent(models.Model):
    """A person lets a conversation call a tool without asking again."""

    conversation = models.ForeignKey(Conversation, models.CASCADE, related_name="tool_consents")
    server = models.ForeignKey(ToolServer, models.CASCADE, related_name="+")
    tool_name = models.CharField(max_length=128)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "server", "tool_name"], name="one_consent"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} in {self.conversation_id}"
