"""The images of a conversation: checked, decoded, and brought to the model's own size.

Files are foreign: their kind and their number of pixels are looked at before anything is decoded.
It does not know text nor tokens.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import warnings
from collections.abc import Generator, Iterator, Sequence

import numpy as np
from PIL import ExifTags, Image

from engine import wire
from engine.core.pixels import Pixels, pack
from engine.intake.image_form import ImageForm
from engine.intake.limits import TimeLimit, TooSlow
from engine.intake.recent import Recent
from engine.intake.refusal import Refusal, invalid

MAX_IMAGES = 16
MAX_FILE_BYTES = 20 * 1024**2
MAX_PIXELS = 50_000_000
MAX_PASSES_PIXELS = 2_000_000_000  # a JPEG goes over all of its pixels again and again, in C
MAX_ALBUM_BYTES = 64 * 1024**2
MAX_SECONDS = 5.0  # of one; decoding that many pixels takes a tenth of it
_JPEG_SCAN = b"\xff\xda"  # begins one; cameras write ten at most
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What the model sees of an image; `digest` names that."""

    digest: str
    pixels: bytes


Looking = Generator[None, None, tuple[Picture, ...]]  # as the conversation has them


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """An image part of a message."""

    param: str
    role: object
    digest: object


def has_images(generate: wire.Generate) -> bool:
    return any(_shown(generate))


def new_album() -> Recent[Picture]:
    """What was made for one model of images that came a moment ago."""
    return Recent(max_bytes=MAX_ALBUM_BYTES)


def look(generate: wire.Generate, form: ImageForm | None, album: Recent[Picture]) -> Looking:
    """One image a step, but what is in the `album` at once. Raises Refusal, also at each step."""
    shown = list(_shown(generate))
    if shown and form is None:
        raise invalid(shown[0].param, f"The model '{generate.model}' does not read images.")
    if len(shown) > MAX_IMAGES:
        raise invalid(
            "messages",
            f"At most {MAX_IMAGES} images are allowed, not {len(shown)}.",
            limit=MAX_IMAGES,
            given=len(shown),
        )
    files = [_file_of(one, generate) for one in shown]
    pictures: list[Picture] = []
    for one, file in zip(shown, files, strict=True):
        assert form is not None
        picture = album.find(generate.tenant, file)
        if picture is None:
            picture = _picture(one.param, file, form)
            album.keep(generate.tenant, file, picture, num_bytes=len(picture.pixels))
            yield
        pictures.append(picture)
    return tuple(pictures)


def _shown(generate: wire.Generate) -> Iterator[_Shown]:
    """Of messages that nobody has checked yet."""
    for number, message in enumerate(generate.messages or ()):
        content = message.get("content") if isinstance(message, dict) else None
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict) and part.get("type") == "image":
                param = f"messages[{number}].content[{place}]"
                yield _Shown(param=param, role=message.get("role"), digest=part.get("digest"))


def _file_of(shown: _Shown, generate: wire.Generate) -> bytes:
    if shown.role != "user":
        raise invalid(shown.param, f"{shown.param}: only a user's message may have images.")
    file = generate.images.get(shown.digest) if isinstance(shown.digest, str) else None
    if file is None:
        raise invalid(shown.param, f"{shown.param} names an image that was not sent.")
    if len(file) > MAX_FILE_BYTES:
        raise invalid(
            shown.param,
            f"{shown.param} is an image of {len(file)} bytes; "
            f"at most {MAX_FILE_BYTES} are allowed.",
            limit=MAX_FILE_BYTES,
            given=len(file),
        )
    return file


def _picture(param: str, file: bytes, form: ImageForm) -> Picture:
    try:
        with TimeLimit(MAX_SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels = _pixels(param, file, form)
    except (Refusal, MemoryError):
        raise
    except TooSlow as error:
        raise invalid(param, f"{param}: the image takes too long to be read.") from error
    except Exception as error:  # Pillow raises whatever a broken file provokes
        detail = f"{param} is no JPEG, PNG, WebP or GIF image that can be read."
        raise invalid(param, detail) from error
    digest = hashlib.sha256(pixels.tobytes()).hexdigest()
    return Picture(digest=digest, pixels=pack(pixels))


def _pixels(param: str, file: bytes, form: ImageForm) -> Pixels:
    """The first frame, upright, as transformers' image processor brings it to size."""
    with Image.open(io.BytesIO(file), formats=_FORMATS) as image:
        width, height = image.size
        _check_size(param, width, height)
        if image.format == "JPEG" and width * height * file.count(_JPEG_SCAN) > MAX_PASSES_PIXELS:
            raise invalid(param, f"{param} is a JPEG of too many passes for its size.")
        turn = _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
        upright = image if turn is None else image.transpose(turn)
        sized = upright.convert("RGB").resize((form.size, form.size), form.resample)
        return np.asarray(sized)


def _check_size(param: str, width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise invalid(
            param,
            f"{param} is an image of {width} x {height} pixels; "
            f"at most {MAX_PIXELS} in all are allowed.",
            limit=MAX_PIXELS,
            given=width * height,
        )


def placed(
    pictures: Sequence[Picture], starts: Sequence[int], form: ImageForm
) -> tuple[wire.PromptImage, ...]:
    return tuple(
        wire.PromptImage(start=start, num_tokens=form.num_tokens, digest=picture.digest)
        for start, picture in zip(starts, pictures, strict=True)
    )
