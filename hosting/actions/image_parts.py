"""Images among the parts of messages: which there are, who may send them, how the wire has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hosting.actions.image_data import ImageData, check_together
from hosting.actions.refusals import Refusal
from hosting.models import HostedModel

Messages = tuple[dict[str, Any], ...]


def images_in(messages: Iterable[dict[str, Any]]) -> list[ImageData]:
    contents = (message["content"] for message in messages)
    lists = (content for content in contents if not isinstance(content, str))
    return [part for parts in lists for part in parts if isinstance(part, ImageData)]


def check_images(model: HostedModel, messages: Messages) -> None:
    """Raises Refusal, which names an image at fault."""
    images = images_in(messages)
    if not images:
        return
    if not model.supports_images:
        message = f"The model {model.name!r} reads text only, no images."
        raise Refusal("unsupported_image", message, field=images[0].where)
    check_together(len(images), sum(len(one.data) for one in images), images[-1].where)


def wire_form(messages: Messages | None) -> dict[str, Any]:
    """The fields of a Generate: messages with the digests of their images, and these."""
    if messages is None:
        return {}
    images = images_in(messages)
    if not images:
        return {"messages": messages}
    return {
        "messages": tuple(map(_named_by_digest, messages)),
        "images": {image.digest: image.data for image in images},
    }


def _named_by_digest(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return message
    return message | {"content": [_named(part) for part in content]}


def _named(part: dict[str, Any] | ImageData) -> dict[str, Any]:
    return {"type": "image", "digest": part.digest} if isinstance(part, ImageData) else part
