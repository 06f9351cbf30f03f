"""Images for messages: sent before the message, and shown to the person whose they are."""

from __future__ import annotations

import uuid

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse

from hosting.actions.image_data import check_size
from hosting.actions.images import data_of, get_image, store_image
from hosting.actions.refusals import Refusal
from hosting.chat.endpoint import endpoint

# Whatever else the bytes could be taken for: shown as an image, and nothing in them runs
_SHOWN_SAFELY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _store(request: HttpRequest) -> JsonResponse:
    """The body is the image, as it is."""
    length = request.headers.get("Content-Length", "0")
    check_size(int(length) if length.isdecimal() else 0, "image")
    try:
        stored = store_image(request.user, request.body)
    except RequestDataTooBig:
        raise Refusal("too_large", "This is more than can be sent at once.", status=413) from None
    return JsonResponse({"image": str(stored.pk)}, status=201)


def _show(request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
    image = get_image(request.user, image_id)
    name = f"image-{image.pk}.{image.media_type.removeprefix('image/')}"
    response = HttpResponse(data_of(image), image.media_type, headers=_SHOWN_SAFELY)
    response["Content-Disposition"] = f'inline; filename="{name}"'
    return response


store = endpoint(POST=_store)
image = endpoint(GET=_show)
