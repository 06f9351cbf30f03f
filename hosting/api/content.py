"""The content of a message, made of its parts: text, or where images are among them a list.

Text that stands alone stays exactly the text it was: prefixes of prompts are found by it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any

from hosting.actions.image_data import ImageData, check_size, checked_image
from hosting.api.errors import invalid, unsupported

Part = str | ImageData
Content = str | list[dict[str, Any] | ImageData]

_DATA_URL = re.compile(r"data:[^,]{0,200}?;base64,", re.IGNORECASE)


def content_of(parts: Iterable[Part], separator: str) -> Content:
    """Neighbouring texts are one, with `separator` between them."""
    joined: list[Part] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] += separator + part
        else:
            joined.append(part)
    if not any(isinstance(part, ImageData) for part in joined):
        return "".join(part for part in joined if isinstance(part, str))
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in joined]


def joined_contents(contents: Iterable[Content], separator: str) -> Content:
    return content_of((part for one in contents for part in parts_of(one)), separator)


def text_only(content: Content) -> str:
    """Raises ApiError naming the first image."""
    if isinstance(content, str):
        return content
    image = next(part for part in content if isinstance(part, ImageData))
    raise invalid(image.where, "Only messages of the user and results of tools may have images.")


def image_in_url(url: Any, where: str) -> ImageData:
    """Of a data: URL. Nothing is fetched: a server that does can be sent to its neighbours.

    Raises ApiError or Refusal.
    """
    if not isinstance(url, str):
        raise invalid(where, "This must be a data: URL.")
    begins = _DATA_URL.match(url)
    if begins is None and url[:5].lower() == "data:":
        raise invalid(where, "A data: URL of an image must say base64.")
    if begins is None:
        raise unsupported(where, "Images are not fetched: send a data: URL, in base64.")
    return image_in_base64(url[begins.end() :], where)


def image_in_base64(text: Any, where: str) -> ImageData:
    """Raises ApiError or Refusal."""
    if not isinstance(text, str):
        raise invalid(where, "This must be base64.")
    check_size(len(text) * 3 // 4 - text[-2:].count("="), where)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(where, "This is not base64.") from None
    return checked_image(data, where)


def parts_of(content: Content) -> list[Part]:
    if isinstance(content, str):
        return [content]
    return [part if isinstance(part, ImageData) else part["text"] for part in content]
