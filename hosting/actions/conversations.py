"""Finds and changes a person's conversations. Another person's are not found."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet, prefetch_related_objects

from accounts.kept import Kept
from accounts.models import User
from accounts.prepared import Given, prepared
from hosting.actions.forgetting import forget
from hosting.actions.generations import cancel_open, tenant_of
from hosting.actions.hints import hint
from hosting.actions.images import delete_unused, images_in_conversations
from hosting.actions.refusals import Refusal, not_found
from hosting.actions.tool_servers import switch_servers
from hosting.models import Conversation, Generation, HostedModel, Message

MAX_TITLE_CHARACTERS = 200

_servable: Kept[HostedModel] = Kept()  # by name


def get_conversation(user: User, conversation_id: uuid.UUID) -> Conversation:
    found = Conversation.objects.of(user.pk).with_is_generating().filter(pk=conversation_id).first()
    if found is None:
        raise not_found("conversation")
    return found


def get_message(user: User, message_id: uuid.UUID) -> Message:
    owned = Message.objects.filter(conversation__owner=user).select_related("conversation")
    found = owned.filter(pk=message_id).first()
    if found is None:
        raise not_found("message")
    return found


def get_generation(user: User, generation_id: uuid.UUID) -> Generation:
    found = Generation.objects.of(user.pk).filter(pk=generation_id).first()
    if found is None:
        raise not_found("generation")
    return found


def messages_of(conversation: Conversation) -> list[Message]:
    """All branches, oldest first, with their generations, images and calls of tools."""
    messages = list(conversation.messages.select_related("generation"))
    asked = [one for one in messages if one.role == Message.Role.USER]
    prefetch_related_objects(asked, "message_images__image")
    holders = [one for one in messages if one.role == Message.Role.TOOL]
    prefetch_related_objects(holders, "calls")  # most conversations have none
    return messages


def branch_to(leaf: Message) -> list[Message]:
    """From the root to `leaf`."""
    rows = {row.pk: row for row in Message.objects.filter(conversation=leaf.conversation_id)}
    branch: list[Message] = []
    current = rows.get(leaf.pk)
    while current is not None:
        branch.append(current)
        current = rows.get(current.parent_id) if current.parent_id else None
    return branch[::-1]


def update_conversation(conversation: Conversation, changes: dict[str, Any]) -> None:
    """`changes` may hold title, is_pinned, system_prompt, model, active_leaf and tool_servers."""
    fields = _checked_changes(conversation, changes)
    with transaction.atomic():
        if "tool_servers" in changes:
            switch_servers(conversation, changes["tool_servers"])
        for name, value in fields.items():
            setattr(conversation, name, value)
        conversation.save(update_fields=list(fields))
        transaction.on_commit(
            lambda: hint(person_id=conversation.owner_id, conversation_id=conversation.pk)
        )


def delete_conversation(conversation: Conversation) -> None:
    """For good, with all messages. What is running for it is stopped."""
    delete_conversations([conversation])


def delete_conversations(conversations: Sequence[Conversation]) -> None:
    """Of one person. What was said in their streams goes too, and what is computed of them."""
    if not conversations:
        return
    person_id, ids = conversations[0].owner_id, [one.pk for one in conversations]
    with transaction.atomic():
        User.objects.hold(person_id)  # who is writing on in one of them has done so, or finds none
        generations = Generation.objects.filter(conversation__in=ids)
        cancel_open(generations)
        ended = generations.exclude(state__in=Generation.OPEN_STATES)  # the others when they end
        requests = [str(pk) for pk in ended.values_list("pk", flat=True)]
        images = images_in_conversations(ids)
        Conversation.objects.filter(pk__in=ids).delete()
        delete_unused(images)
        forget(tenant=tenant_of(person_id), request_ids=requests)
        for conversation_id in ids:
            transaction.on_commit(
                partial(hint, person_id=person_id, conversation_id=conversation_id)
            )


def get_servable_model(name: str) -> HostedModel:
    """The model of that name, as it was within the last second; without a name the default one.

    Raises Refusal.
    """
    return _servable.get(name, lambda: _find_servable_model(name))


def _find_servable_model(name: str) -> HostedModel:
    if not name:
        default = HostedModel.objects.servable().first()  # the default one is first
        if default is None:
            raise Refusal("model_not_found", "No model is ready yet.", field="model", status=404)
        return default
    # A name with a NUL is none: PostgreSQL raises when it is asked for one
    found = [] if "\0" in name else _servable_of_name().objects(name=name)
    if not found:
        message = f"There is no model {name[:80]!r}."
        raise Refusal("model_not_found", message, field="model", status=404)
    return found[0]  # type: ignore[no-any-return]


@prepared
def _servable_of_name() -> QuerySet[HostedModel]:
    return HostedModel.objects.servable().filter(name=Given("name")).order_by()


def _checked_changes(conversation: Conversation, changes: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "title" in changes:
        fields |= {"title": _title(changes["title"]), "is_title_set_by_person": True}
    if "is_pinned" in changes:
        fields["is_pinned"] = changes["is_pinned"]
    if "system_prompt" in changes:
        fields["system_prompt"] = changes["system_prompt"]
    if "model" in changes:
        fields["model_name"] = get_servable_model(changes["model"]).name
    if "active_leaf" in changes:
        fields["active_leaf"] = _own_message(conversation, changes["active_leaf"])
    return fields


def _title(text: str) -> str:
    title = " ".join(text.split())
    if not title or len(title) > MAX_TITLE_CHARACTERS:
        raise Refusal(
            "invalid_value", f"A title has 1 to {MAX_TITLE_CHARACTERS} characters.", field="title"
        )
    return title


def _own_message(conversation: Conversation, message_id: uuid.UUID) -> Message:
    found = conversation.messages.filter(pk=message_id).first()
    if found is None:
        raise Refusal("invalid_value", "The conversation has no such message.", field="active_leaf")
    return found
