"""Adds to the audit record, and checks that nothing in it was changed or taken out.

    mark(n) = HMAC(SECRET_KEY, mark(n-1) + everything record n says)

Who can write to the database but does not have SECRET_KEY cannot make a mark. The head row tells
when the last records are gone; each new head is also logged, and `verify` takes one from there,
for somebody may put back an older copy of the whole table, its head included.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
import logging
from typing import Any

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from accounts.models import AuditHead, AuditRecord, User

SYSTEM = "system"
_HIDDEN = "(hidden)"
_SECRETS = frozenset({"password", "key_hash", "token_hash", "secret"})

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `verify` found. `fault` is None when the chain is whole."""

    num_records: int
    head: str
    fault: str | None = None


def record(
    action: str,
    *,
    actor: User | None,
    address: str = "",
    target: object = "",
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditRecord:
    """Add one event, in the caller's transaction: both happen or neither.

    `action` is noun.verb ("key.revoke"); actor None is the service itself. Of `before` and `after`
    give what changed; values that are secrets by their name are not kept.
    """
    with transaction.atomic():
        AuditHead.objects.get_or_create(pk=1)
        head = AuditHead.objects.select_for_update().get(pk=1)
        added = AuditRecord(
            number=head.number + 1,
            actor_id=actor.pk if actor else None,
            actor=actor.email if actor else SYSTEM,
            address=address,
            action=action,
            target=_storable(str(target))[:300],
            before=_as_text(before),
            after=_as_text(after),
        )
        added.mark = _mark(added, head.mark, settings.SECRET_KEY)
        added.save()
        AuditHead.objects.filter(pk=1).update(number=added.number, mark=added.mark)
    logger.info("audit head %s:%s", added.number, added.mark)
    return added


def record_of(
    request: HttpRequest,
    action: str,
    *,
    target: object = "",
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditRecord:
    """`record` for what the person behind an HTTP request does."""
    return record(
        action,
        actor=request.user if request.user.is_authenticated else None,
        address=address_of(request),
        target=target,
        before=before,
        after=after,
    )


def address_of(request: HttpRequest) -> str:
    return request.META.get("REMOTE_ADDR") or ""


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The two sides of what differs, ready for `record`: {"before": ..., "after": ...}."""
    names = [name for name in after if before.get(name) != after[name]]
    return {
        "before": {name: before.get(name) for name in names},
        "after": {name: after[name] for name in names},
    }


def verify(*, known_head: str = "") -> Verdict:
    """Walk the whole chain. `known_head` ("number:mark", from a log) must be in it."""
    mark, number, is_known = "", 0, not known_head
    for one in AuditRecord.objects.order_by("number").iterator(chunk_size=1000):
        if one.number != number + 1:
            return _fault(number, mark, f"Record {number + 1} is missing.")
        if not _is_marked(one, mark):
            return _fault(number, mark, f"Record {one.number} was changed, or one before it.")
        number, mark = one.number, one.mark
        is_known = is_known or f"{number}:{mark}" == known_head
    head = AuditHead.objects.filter(pk=1).first() or AuditHead()
    if (head.number, head.mark) != (number, mark):
        return _fault(number, mark, f"Records after {number} are missing: {head.number} were made.")
    if not is_known:
        return _fault(number, mark, f"The head {known_head.split(':')[0]} is not in the chain.")
    return Verdict(num_records=number, head=f"{number}:{mark}")


def _fault(number: int, mark: str, fault: str) -> Verdict:
    return Verdict(num_records=number, head=f"{number}:{mark}", fault=fault)


def _is_marked(one: AuditRecord, mark_before: str) -> bool:
    keys = [str(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    return any(hmac.compare_digest(one.mark, _mark(one, mark_before, key)) for key in keys)


def _mark(one: AuditRecord, mark_before: str, secret_key: str) -> str:
    said = [
        mark_before,
        one.number,
        one.created_at.isoformat(),
        one.actor_id,
        *(one.actor, one.address, one.action, one.target, one.before, one.after),
    ]
    text = json.dumps(said)
    return salted_hmac("accounts.audit", text, secret=secret_key, algorithm="sha256").hexdigest()


def _as_text(values: dict[str, Any] | None) -> str:
    if not values:
        return ""
    shown = {name: _HIDDEN if name in _SECRETS else value for name, value in values.items()}
    return _storable(json.dumps(shown, cls=DjangoJSONEncoder, ensure_ascii=False, sort_keys=True))


def _storable(text: str) -> str:
    """PostgreSQL stores no NUL."""
    return text.replace("\x00", "")
