"""Whose a stored prefix is: opaque 16-byte names of three kinds. It does not know people.

    person       computed it independently; enough persons make it everybody's (`share_after`)
    team         its members use it at once
    publication  everybody uses it, by an administrator's decision, whatever the model's mode

Without a person or a publication among its owners a prefix is nobody's: teams only widen the use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set
from enum import Enum

OWNER_BYTES = 16


class OwnerKind(Enum):
    PERSON = b"p"
    TEAM = b"t"
    PUBLICATION = b"*"


_PERSON, _PUBLICATION = OwnerKind.PERSON.value, OwnerKind.PUBLICATION.value


def owner_name(kind: OwnerKind, name: str) -> bytes:
    """The owner as the cache and its files know it."""
    digest = hashlib.sha256(b"hearth/owner/1" + kind.value + name.encode()).digest()
    return kind.value + digest[: OWNER_BYTES - 1]


def has_publication(owners: Set[bytes]) -> bool:
    return any(owner.startswith(_PUBLICATION) for owner in owners)


def num_persons(owners: Set[bytes]) -> int:
    return sum(owner.startswith(_PERSON) for owner in owners)


def is_nobodys(owners: Set[bytes]) -> bool:
    return not num_persons(owners) and not has_publication(owners)


def are_enough(owners: Set[bytes], *, share_after: int | None) -> bool:
    """Whether what so many persons have computed is everybody's; for None it never is."""
    if share_after is None or len(owners) < share_after:
        return False
    return num_persons(owners) >= share_after
