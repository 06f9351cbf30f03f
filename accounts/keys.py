"""Makes, checks and revokes API keys. It does not know how a key arrives (auth.py does).

    sk-hearth-  Ab3dEf9h  <43 characters>  <6 characters>
    `------ prefix -----'    `- secret -'    `- checksum -'
    what lists may show      256 random bits  CRC-32 of what precedes it

By the checksum a mistyped key is refused without a query, and secret scanners know a key when they
see one. The secret is random, so one HMAC is as good as a slow hash and costs microseconds; its key
comes from SECRET_KEY, so that a copy of the database alone cannot even confirm a guess.
"""

from __future__ import annotations

import datetime
import hmac
import secrets
import string
import zlib
from collections.abc import Sequence
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts import audit
from accounts.access import end_use_of_key
from accounts.kept import Kept
from accounts.models import ApiKey, Quota, User
from accounts.prepared import Given, prepared

MARK = "sk-hearth-"
ID_LENGTH, SECRET_LENGTH, CHECKSUM_LENGTH = 8, 43, 6
PREFIX_LENGTH = len(MARK) + ID_LENGTH
KEY_LENGTH = PREFIX_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH
NOTE_USE_EVERY = datetime.timedelta(minutes=1)
_ALPHABET = string.digits + string.ascii_letters
_NO_HASH = "0" * 64  # what the secret of an unknown key is compared with


_opened: Kept[ApiKey] = Kept()  # by the hash of their secret


class NotRotatable(Exception):
    """This key has ended, or has a successor already."""


class KeyRefused(Exception):
    """This API key may not be used."""

    code = "invalid_api_key"


class InvalidKey(KeyRefused):
    """Incorrect API key provided."""


class ExpiredKey(KeyRefused):
    """This API key has expired. Create a new one on the keys page."""

    code = "key_expired"


class RevokedKey(KeyRefused):
    """This API key has been revoked. Create a new one on the keys page."""

    code = "key_expired"  # as for the other: what a client does about it is the same


def create_api_key(
    *,
    user: User,
    name: str,
    expires_at: datetime.datetime | None = None,
    scopes: Sequence[str] = (),
    models: Sequence[str] = (),
    by: User | None = None,
    address: str = "",
) -> tuple[ApiKey, str]:
    """A new key and its secret text, which is nowhere kept and cannot be shown again."""
    secret = _generate()
    with transaction.atomic():
        key = ApiKey.objects.create(
            user=user,
            name=name,
            expires_at=expires_at,
            scopes=list(scopes),
            prefix=secret[:PREFIX_LENGTH],
            key_hash=_hash(secret, settings.SECRET_KEY),
        )
        if models:
            Quota.objects.create(api_key=key, allowed_models=list(models))
        told = {"person": user.email, "expires_at": expires_at, "scopes": key.scopes}
        told |= {"models": list(models)}
        audit.record("key.create", actor=by, address=address, target=key, after=told)
    return key, secret


def rotate_api_key(
    key: ApiKey, *, overlap: datetime.timedelta, by: User | None, address: str = ""
) -> tuple[ApiKey, str]:
    """A successor with the same name, scopes and limits. The old secret works on for `overlap`, or
    ends with the answers that it has open."""
    old_ends_at = timezone.now() + overlap
    with transaction.atomic():
        User.objects.hold(key.user_id)  # as in `revoke_api_key`
        locked = ApiKey.objects.select_for_update(no_key=True).get(pk=key.pk)
        if not locked.is_usable or locked.replaced_by_id:
            raise NotRotatable
        successor, secret = create_api_key(
            user=key.user, name=key.name, scopes=key.scopes, by=by, address=address,
            expires_at=_same_life(locked),
        )  # fmt: skip
        for quota in Quota.objects.filter(api_key=key):
            quota.pk, quota.api_key, quota._state.adding = None, successor, True
            quota.save()
        locked.expires_at = min(locked.expires_at or old_ends_at, old_ends_at)
        locked.replaced_by = successor
        locked.save(update_fields=["expires_at", "replaced_by"])
        told = {"expires_at": locked.expires_at}
        audit.record("key.rotate", actor=by, address=address, target=locked, after=told)
        if locked.is_expired:
            end_use_of_key(locked)
    _opened.forget()
    return successor, secret


def _same_life(key: ApiKey) -> datetime.datetime | None:
    """A key made for 30 days is followed by one for 30 days."""
    return key.expires_at and timezone.now() + (key.expires_at - key.created_at)


def check_api_key(secret: str) -> ApiKey:
    """The key that `secret` opens, its person with it, as it was half a second ago at the most.

    Raises InvalidKey, ExpiredKey or RevokedKey; the latter two only to who holds the whole key.
    """
    _check_form(secret)
    key = _opened.get(_hash(secret, settings.SECRET_KEY), partial(_open, secret))
    if key.is_expired:
        raise ExpiredKey
    return key


def _open(secret: str) -> ApiKey:
    """In one query."""
    key = next(iter(_of_prefix().objects(prefix=secret[:PREFIX_LENGTH])), None)
    secret_key = _matching_secret_key(secret, key.key_hash if key else _NO_HASH)
    if key is None or secret_key is None or not key.user.is_active:
        raise InvalidKey
    if key.is_revoked:
        raise RevokedKey
    if key.is_expired:
        raise ExpiredKey
    if secret_key != settings.SECRET_KEY:
        _hash_again(key, secret)
    return key


@prepared
def _of_prefix() -> QuerySet[ApiKey]:
    return ApiKey.objects.select_related("user").filter(prefix=Given("prefix")).order_by()


def keys_managed_by(user: User) -> QuerySet[ApiKey]:
    """A person's own; for an administrator also those of service accounts."""
    own = Q(user=user)
    return ApiKey.objects.filter(own | Q(user__is_service=True) if user.is_superuser else own)


def revoke_api_key(key: ApiKey, *, by: User | None = None, address: str = "") -> None:
    """End a key for good, and the answers that it has open. Revoking twice keeps the first time."""
    with transaction.atomic():
        User.objects.hold(key.user_id)  # what is beginning with this key has begun, or never does
        still_valid = ApiKey.objects.filter(pk=key.pk, revoked_at=None)
        if still_valid.update(revoked_at=timezone.now()):
            audit.record("key.revoke", actor=by, address=address, target=key)
        end_use_of_key(key)
    _opened.forget()
    key.refresh_from_db(fields=["revoked_at"])


def note_use(key: ApiKey, *, address: str | None, client: str) -> None:
    """Remember when, whence and by what the key was used. Writes at most once a minute."""
    now = timezone.now()
    if key.last_used_at is not None and key.last_used_at > now - NOTE_USE_EVERY:
        return
    ApiKey.objects.filter(pk=key.pk, last_used_at=key.last_used_at).update(
        last_used_at=now, last_used_address=address, last_used_client=client[:100]
    )
    key.last_used_at = now


def _generate() -> str:
    body = "".join(secrets.choice(_ALPHABET) for _ in range(ID_LENGTH + SECRET_LENGTH))
    return with_checksum(MARK + body)


def with_checksum(text: str) -> str:
    """A whole key, of all before its checksum."""
    return text + _checksum(text)


def _checksum(text: str) -> str:
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def _check_form(secret: str) -> None:
    is_whole = len(secret) == KEY_LENGTH and secret.isascii() and secret.startswith(MARK)
    if not is_whole or _checksum(secret[:-CHECKSUM_LENGTH]) != secret[-CHECKSUM_LENGTH:]:
        raise InvalidKey


def _hash(secret: str, secret_key: str) -> str:
    digest = salted_hmac("accounts.keys", secret, secret=secret_key, algorithm="sha256")
    return digest.hexdigest()


def _matching_secret_key(secret: str, key_hash: str) -> str | None:
    """Which of this installation's secret keys `key_hash` was made with.

    Always tries all of them, in constant time.
    """
    found = None
    for secret_key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        if hmac.compare_digest(_hash(secret, secret_key), key_hash) and found is None:
            found = secret_key
    return found


def _hash_again(key: ApiKey, secret: str) -> None:
    """Move a key made under an older SECRET_KEY to the current one, so that the old may go."""
    key.key_hash = _hash(secret, settings.SECRET_KEY)
    ApiKey.objects.filter(pk=key.pk).update(key_hash=key.key_hash)
