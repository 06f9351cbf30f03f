"""Images in results of tools. On the wire only users' messages have images, so these follow the
results, before what the user says next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hosting.actions.image_data import ImageData
from hosting.api.content import Part, content_of, joined_contents, parts_of

_INSTEAD = "The image follows."  # of a result that is nothing else


def after_results(messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Text alone stays as it was."""
    waiting: list[Part] = []
    for message in messages:
        if message["role"] == "tool":
            yield _without_images(message, waiting)
            continue
        if waiting and message["role"] == "user":
            content = joined_contents([content_of(waiting, ""), message["content"]], "\n")
            yield message | {"content": content}
        else:
            yield from _shown(waiting)
            yield message
        waiting = []
    yield from _shown(waiting)


def _without_images(message: dict[str, Any], waiting: list[Part]) -> dict[str, Any]:
    """What is taken out of it is added to `waiting`."""
    if isinstance(message["content"], str):
        return message
    parts = parts_of(message["content"])
    waiting += [part for part in parts if isinstance(part, ImageData)]
    text = "\n".join(part for part in parts if isinstance(part, str))
    return message | {"content": text or _INSTEAD}


def _shown(waiting: list[Part]) -> Iterator[dict[str, Any]]:
    if waiting:
        yield {"role": "user", "content": content_of(waiting, "")}
