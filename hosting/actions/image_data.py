"""An image as its bytes came. What it is the first of them say; nothing here decodes it."""

from __future__ import annotations

import dataclasses
import hashlib

from django.conf import settings

from hosting.actions.refusals import Refusal

_MEGABYTE = 1024 * 1024
_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImageData:
    """`where`: the field that it came in, for whoever refuses it."""

    data: bytes = dataclasses.field(repr=False)
    where: str

    @property
    def media_type(self) -> str:
        found = media_type_of(self.data)
        assert found is not None
        return found

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def media_type_of(data: bytes) -> str | None:
    """None for what is no PNG, JPEG, WebP or GIF."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    found = (kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning))
    return next(found, None)


def checked_image(data: bytes, where: str) -> ImageData:
    """Raises Refusal."""
    check_size(len(data), where)
    if media_type_of(data) is None:
        raise Refusal("invalid_image", "This is no PNG, JPEG, WebP or GIF.", field=where)
    return ImageData(data=data, where=where)


def check_size(num_bytes: int, where: str) -> None:
    """Raises Refusal."""
    if num_bytes > settings.MAX_IMAGE_BYTES:
        message = f"An image may have {settings.MAX_IMAGE_BYTES // _MEGABYTE:,} MB."
        raise Refusal("image_too_large", message, field=where)


def check_together(num_images: int, num_bytes: int, where: str) -> None:
    """Of one request, with all turns before: what is in Redis and in the row until it ends. No more
    than the body of a call can hold. Raises Refusal."""
    if num_images > settings.MAX_IMAGES:
        message = f"A request may have {settings.MAX_IMAGES} images, this one has {num_images}."
        raise Refusal("too_many_images", message, field=where)
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE * 3 // 4  # base64
    if num_bytes > most:
        message = f"The images of a request may have {most // _MEGABYTE} MB together."
        raise Refusal("images_too_large", message, field=where)
