"""Intake names an image by its place on the wire; the caller is told the field it was sent in."""

from __future__ import annotations

import re

from engine import wire
from hosting.actions.image_data import ImageData
from hosting.actions.orders import Order
from hosting.api.errors import ApiError, of_event

_PLACE = re.compile(r"messages\[(\d+)\]\.content\[(\d+)\]")


def error_of(event: wire.Refused | wire.Failed, order: object) -> ApiError:
    """`order`: what was asked for."""
    place = _PLACE.fullmatch(event.param or "") if isinstance(event, wire.Refused) else None
    image = _image_at(order, int(place[1]), int(place[2])) if place else None
    error = of_event(event)
    if place is not None and image is not None:
        error.param = image.where
        error.message = error.message.replace(place[0], image.where)
    return error


def _image_at(order: object, number: int, place: int) -> ImageData | None:
    messages = order.messages if isinstance(order, Order) else None
    if messages is None or number >= len(messages):
        return None
    content = messages[number]["content"]
    part = content[place] if isinstance(content, list) and place < len(content) else None
    return part if isinstance(part, ImageData) else None
