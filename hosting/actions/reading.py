"""Administrators read a person's conversations: where a policy lets them, and never unseen."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.models import AuditRecord, Policy, User
from hosting.actions.conversations import branch_to
from hosting.actions.refusals import Refusal, not_found
from hosting.models import Conversation, Message

_READ = "conversation.read"
_MOST_TOLD = 50


def may_read(reader: User) -> bool:
    return reader.is_superuser and Policy.objects.current().may_read_conversations


def list_of(person: User, *, reader: User, address: str) -> QuerySet[Conversation]:
    """Their titles, which tell something too. Raises Refusal."""
    _note(reader, person, address, what="titles")
    return Conversation.objects.of(person.pk)


def read(
    person: User, conversation_id: uuid.UUID, *, reader: User, address: str
) -> tuple[Conversation, list[Message]]:
    """The branch that its person sees. Raises Refusal."""
    found = Conversation.objects.of(person.pk).filter(pk=conversation_id).first()
    if found is None or not may_read(reader):
        raise not_found("conversation")
    _note(reader, person, address, what=str(found.pk))
    return found, branch_to(found.active_leaf) if found.active_leaf else []


def readings_of(person: User) -> QuerySet[AuditRecord]:
    """Who read something of this person, the newest first."""
    return AuditRecord.objects.filter(action=_READ, target=_target(person))[:_MOST_TOLD]


def _note(reader: User, person: User, address: str, *, what: str) -> None:
    """With the policy's row held: nobody reads once it is switched off."""
    with transaction.atomic():
        Policy.objects.select_for_update().filter(pk=1).first()
        if not may_read(reader):
            raise Refusal("not_found", "There is no such page.", status=404)
        audit.record(
            _READ, actor=reader, address=address, target=_target(person), after={"read": what}
        )


def _target(person: User) -> str:
    return f"person {person.pk}"
