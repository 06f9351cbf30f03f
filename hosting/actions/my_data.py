"""Everything that the service keeps of one person: given to them, and deleted for good."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import transaction

from accounts import audit
from accounts.models import ApiKey, UsageRecord, User
from accounts.second_factors import told_of
from hosting.actions import batches, files
from hosting.actions.access import end_open_generations
from hosting.actions.export import as_json
from hosting.actions.forgetting import forget
from hosting.actions.generations import tenant_of
from hosting.actions.images import delete_images_of
from hosting.actions.refusals import Refusal
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import Conversation, Generation

_USAGE = ("created_at", "kind", "model_name", "prompt_tokens", "cached_tokens", "completion_tokens")


def export_of(user: User, *, site: str) -> dict[str, Any]:
    """Conversations with all branches, keys and factors without secrets, the ledger's lines,
    and of batches and files what they are: their contents are fetched on the page of batches.
    `site`: where people reach this server, for images."""
    return {
        "person": {"email": user.email, "name": user.name, "joined": user.date_joined.isoformat()},
        "conversations": [as_json(one, site=site) for one in Conversation.objects.of(user.pk)],
        "api_keys": [_key(key) for key in ApiKey.objects.filter(user=user)],
        "sign_in": told_of(user),
        "batches": batches.told_of(user),
        "files": files.told_of(user),
        "usage": list(_usage(user)),
    }


def forget_computed(user: User) -> None:
    """The engines delete what they keep of this person's prompts alone. Raises Refusal."""
    try:
        get_client().forget_tenant(tenant_of(user.pk))
    except EngineUnavailable as error:
        message = "The engine cannot be reached now. Try again in a minute."
        raise Refusal("engine_unavailable", message, status=503) from error


def delete_person(user: User, *, actor: User, address: str) -> None:
    """With conversations, generations and keys; the ledger keeps nameless sums.

    What runs is stopped; the engines forget what it computed for this person alone. The last
    administrator stays. Raises Refusal.
    """
    tenant = tenant_of(user.pk)
    with transaction.atomic():
        if User.objects.is_last_administrator(user):
            raise Refusal("last_administrator", "The last administrator cannot be deleted.")
        User.objects.hold(user.pk)
        end_open_generations(user_id=user.pk)
        ids = [str(pk) for pk in Generation.objects.of(user.pk).values_list("pk", flat=True)]
        audit.record("person.delete", actor=actor, address=address, target=f"person {user.pk}")
        batches.delete_batches_of(user)
        files.delete_files_of(user)
        delete_images_of(user)
        user.delete()
        forget(tenant=tenant, request_ids=ids)


def _key(key: ApiKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "prefix": key.prefix,
        "created_at": key.created_at.isoformat(),
        "last_used_at": key.last_used_at and key.last_used_at.isoformat(),
    }


def _usage(user: User) -> Iterator[dict[str, Any]]:
    lines = UsageRecord.objects.filter(user=user).order_by("created_at").values(*_USAGE)
    for line in lines.iterator():
        yield line | {"created_at": line["created_at"].isoformat()}
