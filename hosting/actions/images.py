"""Images of people for their messages: taken in, put into messages, deleted with the last of them.
Another person's are not found."""

from __future__ import annotations

import contextlib
import datetime
import uuid
from collections.abc import Iterable, Sequence
from functools import partial

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from hosting.actions import file_bytes
from hosting.actions.files import check_total
from hosting.actions.image_data import ImageData, check_together, checked_image
from hosting.actions.refusals import Refusal, not_found
from hosting.models import Image, Message, MessageImage

MAX_IMAGES_OF_MESSAGE = 8
_UNSENT_KEPT = datetime.timedelta(days=1)
FIELD = "images"


def store_image(user: User, data: bytes) -> Image:
    """The one that is there, where these bytes were given before. Raises Refusal."""
    given = checked_image(data, "image")
    file_bytes.check_room(len(data))
    image_id = uuid.uuid4()
    file_bytes.write(image_id, [data])
    with contextlib.ExitStack() as unless_stored, transaction.atomic():
        unless_stored.callback(file_bytes.delete, [image_id])
        User.objects.hold(user.pk)
        known = Image.objects.filter(owner=user, digest=given.digest)
        if known.update(given_at=timezone.now()):
            return known.get()
        check_total(user, len(data))
        stored = Image.objects.create(
            id=image_id,
            owner=user,
            digest=given.digest,
            media_type=given.media_type,
            num_bytes=len(data),
        )
        transaction.on_commit(unless_stored.pop_all)
    return stored


def get_image(user: User, image_id: uuid.UUID) -> Image:
    """Raises Refusal."""
    found = Image.objects.filter(owner=user, pk=image_id).first()
    if found is None:
        raise not_found("image")
    return found


def data_of(image: Image) -> bytes:
    """Somebody may have taken the file out of the data folder. Raises Refusal."""
    try:
        return file_bytes.path_of(image.pk).read_bytes()
    except FileNotFoundError:
        message = "An image of this conversation is not on the server's disk any more."
        raise Refusal("image_gone", message, field=FIELD, status=404) from None


def put_into(message: Message, image_ids: Sequence[uuid.UUID]) -> None:
    """With the owner held. Raises Refusal."""
    if len(image_ids) > MAX_IMAGES_OF_MESSAGE:
        text = f"A message may have {MAX_IMAGES_OF_MESSAGE} images."
        raise Refusal("too_many_images", text, field=FIELD)
    own = Image.objects.filter(owner_id=message.conversation.owner_id).in_bulk(image_ids)
    if len(own) < len(set(image_ids)):
        raise Refusal("image_gone", "An image is gone: attach it once more.", field=FIELD)
    MessageImage.objects.bulk_create(
        MessageImage(message=message, image=own[image_id], number=number)
        for number, image_id in enumerate(image_ids)
    )


def ids_in(message: Message) -> list[uuid.UUID]:
    places = MessageImage.objects.filter(message=message)
    return list(places.values_list("image", flat=True))


def images_of(messages: Iterable[Message]) -> dict[uuid.UUID, list[ImageData]]:
    """By the message, where it has some. Raises Refusal."""
    found: dict[uuid.UUID, list[ImageData]] = {}
    ids = [message.pk for message in messages]
    places = list(MessageImage.objects.filter(message__in=ids).select_related("image"))
    check_together(len(places), sum(one.image.num_bytes for one in places), FIELD)
    for one in places:
        image = ImageData(data=data_of(one.image), where=FIELD)
        found.setdefault(one.message_id, []).append(image)
    return found


def images_in_conversations(ids: Sequence[uuid.UUID]) -> QuerySet[Image]:
    """Found when this is called: the messages may be deleted afterwards."""
    shown = MessageImage.objects.filter(message__conversation__in=ids)
    return Image.objects.filter(pk__in=set(shown.values_list("image", flat=True)))


def delete_unused(images: QuerySet[Image]) -> int:
    """Those of these that are in no message. In a transaction, with their owner held."""
    ids = list(images.filter(message_images=None).values_list("pk", flat=True))
    Image.objects.filter(pk__in=ids).delete()
    transaction.on_commit(partial(file_bytes.delete, ids))
    return len(ids)


def delete_images_of(user: User) -> None:
    """All of them, with their places in messages. In the caller's transaction."""
    images = Image.objects.filter(owner=user)
    ids = list(images.values_list("pk", flat=True))
    images.delete()
    transaction.on_commit(partial(file_bytes.delete, ids))


def delete_unsent_images() -> int:
    """Those that were given a day ago and are in no message."""
    old = Image.objects.filter(message_images=None, given_at__lt=timezone.now() - _UNSENT_KEPT)
    total = 0
    for owner_id in old.order_by().values_list("owner", flat=True).distinct():
        with transaction.atomic():
            User.objects.hold(owner_id)  # what is given again, or sent, in this moment stays
            total += delete_unused(old.filter(owner=owner_id))
    return total
