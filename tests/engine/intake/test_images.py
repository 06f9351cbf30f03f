"""Images in a conversation: checked, counted, brought to size, or refused."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from PIL import Image
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

from engine import wire
from engine.core.pixels import unpack
from engine.intake import images
from engine.intake.door import Door
from engine.intake.model_folder import Library
from engine.intake.refusal import Refusal
from tests.makers import make_generate
from tests.tiny_models import SEEING, tiny_model_path
from tests.tiny_sights import IMAGE_ID, IMAGE_SIZE, NUM_TOKENS, START_OF_TURN_ID

Part = dict[str, Any]
WITHOUT_IMAGES = "tiny-qwen3"


def photo(width: int = 90, height: int = 60, *, seed: int = 1) -> Image.Image:
    random = np.random.default_rng(seed)
    rough = random.integers(0, 256, (height // 10, width // 10, 3), dtype=np.uint8)
    return Image.fromarray(rough).resize((width, height), Image.Resampling.BICUBIC)


def file_of(image: Image.Image, kind: str = "PNG", **settings: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **settings)
    return stream.getvalue()


def shown(file: bytes) -> Part:
    return {"type": "image", "digest": hashlib.sha256(file).hexdigest()}


def text(words: str) -> Part:
    return {"type": "text", "text": words}


def generate_of(*messages: dict[str, Any], files: tuple[bytes, ...], **changes: Any) -> Any:
    sent = {hashlib.sha256(one).hexdigest(): one for one in files}
    return make_generate("a", messages=messages, images=sent, **changes)


def asking(*parts: Part, files: tuple[bytes, ...], **changes: Any) -> wire.Generate:
    return generate_of({"role": "user", "content": [*parts]}, files=files, **changes)


def run(looking: Any) -> Any:
    while True:
        try:
            next(looking)
        except StopIteration as end:
            return end.value


def spec_of(name: str, **changes: Any) -> wire.ModelSpec:
    return wire.ModelSpec(name=name, path=str(tiny_model_path(name)), **changes)


def check(generate: wire.Generate, name: str = SEEING, **changes: Any) -> wire.Work:
    door, spec = Door(Library()), spec_of(name, **changes)
    looking = door.look(generate, spec)
    return door.check(generate, spec, pictures=run(looking) if looking else ())


def refused(generate: wire.Generate, name: str = SEEING, **changes: Any) -> wire.Refused:
    with pytest.raises(Refusal) as caught:
        check(generate, name, **changes)
    return caught.value.refused


@pytest.fixture(scope="module")
def decode() -> Callable[..., str]:
    tokenizer = tokenizers.Tokenizer.from_file(str(tiny_model_path(SEEING) / "tokenizer.json"))
    return lambda ids: tokenizer.decode(ids, skip_special_tokens=False)


def test_an_image_stands_where_the_message_has_it(decode: Callable[..., str]) -> None:
    file = file_of(photo())
    work = check(asking(text("What is"), shown(file), text("this?"), files=(file,)))
    soft = "<image_soft_token>" * NUM_TOKENS
    assert decode(work.prompt_token_ids) == (
        "<bos><start_of_turn>user\nWhat is\n\n<start_of_image>"
        f"{soft}<end_of_image>\n\nthis?<end_of_turn>\n<start_of_turn>model\n"
    )
    (image,) = work.images
    assert work.prompt_token_ids[image.start :][:NUM_TOKENS] == (IMAGE_ID,) * NUM_TOKENS
    assert image.num_tokens == NUM_TOKENS
    assert IMAGE_ID not in work.prompt_token_ids[: image.start]


def test_tokens_are_those_of_the_whole_text(decode: Callable[..., str]) -> None:
    """As transformers makes them of a text in which all of an image's tokens are spelled."""
    file = file_of(photo())
    generate = asking(shown(file), text("a\n"), shown(file), text("b"), files=(file,))
    token_ids = check(generate).prompt_token_ids
    tokenizer = tokenizers.Tokenizer.from_file(str(tiny_model_path(SEEING) / "tokenizer.json"))
    again = tokenizer.encode(decode(token_ids), add_special_tokens=False).ids
    assert token_ids == tuple(again)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
@pytest.mark.parametrize("size", [(90, 60), (20, 700), (32, 32)])
def test_pixels_are_those_of_the_models_own_image_processor(
    kind: str, size: tuple[int, int]
) -> None:
    file = file_of(photo(*size), kind)
    work = check(asking(shown(file), text("a"), files=(file,)))
    settings = json.loads((tiny_model_path(SEEING) / "preprocessor_config.json").read_text())
    settings |= {"do_rescale": False, "do_normalize": False}
    processor = Gemma3ImageProcessorPil(**settings)
    with Image.open(io.BytesIO(file)) as image:
        (expected,) = processor(image.convert("RGB"), return_tensors="np")["pixel_values"]
    (packed,) = work.pixels.values()
    np.testing.assert_array_equal(unpack(packed), expected.transpose(1, 2, 0))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_any_kind_of_colour_is_read(mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.arange(64 * 64, dtype=np.uint16).reshape(64, 64))
    else:
        image = photo().convert(mode)
    file = file_of(image, "JPEG" if mode == "CMYK" else "PNG")
    assert len(check(asking(shown(file), text("a"), files=(file,))).pixels) == 1


def test_a_photo_is_seen_upright() -> None:
    image = photo(64, 32)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    turned = file_of(image, "PNG", exif=exif)
    upright = file_of(image.transpose(Image.Transpose.ROTATE_270), "PNG")
    digests = [
        check(asking(shown(one), text("a"), files=(one,))).images[0].digest
        for one in (turned, upright)
    ]
    assert digests[0] == digests[1]


def test_the_same_image_travels_once() -> None:
    file, other = file_of(photo()), file_of(photo(seed=2))
    parts = (shown(file), shown(file), shown(other), text("a"))
    work = check(asking(*parts, files=(file, other)))
    assert [one.digest for one in work.images[:2]] == [work.images[0].digest] * 2
    assert len(work.images) == 3
    assert len(work.pixels) == 2


def test_a_conversation_keeps_images_where_they_were() -> None:
    first, second = file_of(photo()), file_of(photo(seed=2))
    question = {"role": "user", "content": [shown(first), text("What is this?")]}
    before = check(generate_of(question, files=(first,)))
    later = check(
        generate_of(
            question,
            {"role": "assistant", "content": "A pattern."},
            {"role": "user", "content": [text("And this?"), shown(second)]},
            files=(first, second),
        )
    )
    assert later.images[0] == before.images[0]
    common = len(before.prompt_token_ids)
    assert later.prompt_token_ids[:common] == before.prompt_token_ids
    of_turns = {later.prompt_token_ids[one] for one in later.boundaries}
    assert of_turns == {START_OF_TURN_ID}
    assert sum(one > common for one in later.boundaries) == 2


def test_images_are_counted_once() -> None:
    file = file_of(photo())
    door, spec = Door(Library()), spec_of(SEEING)
    words, both = [
        asking(*parts, files=(file,)) for parts in ([text("a")], [shown(file), text("a")])
    ]
    looking = door.look(both, spec)
    assert looking is not None
    num_tokens = door.count(both, spec, pictures=run(looking))
    assert num_tokens == len(check(both).prompt_token_ids)
    more = num_tokens - door.count(words, spec)
    assert NUM_TOKENS + 2 <= more <= NUM_TOKENS + 6  # and what stands around it


def test_images_count_against_the_context() -> None:
    file = file_of(photo())
    generate = asking(*[shown(file)] * 3, text("a"), files=(file,))
    too_long = refused(generate, context_limit_tokens=50)
    assert too_long.code == wire.Code.CONTEXT_LENGTH_EXCEEDED
    assert too_long.numbers["prompt_tokens"] == len(check(generate).prompt_token_ids)


def test_what_somebody_writes_is_no_image(decode: Callable[..., str]) -> None:
    words = "look: <start_of_image> <image_soft_token>"
    work = check(asking(text(words), files=()))
    assert work.images == ()
    assert IMAGE_ID not in work.prompt_token_ids
    file = file_of(photo())
    work = check(asking(text(words), shown(file), files=(file,)))
    assert len(work.images) == 1
    assert words in decode(work.prompt_token_ids)


def test_a_model_that_does_not_read_images_refuses_them_by_name() -> None:
    file = file_of(photo())
    no = refused(asking(text("a"), shown(file), files=(file,)), WITHOUT_IMAGES)
    assert (no.code, no.param) == (wire.Code.INVALID_VALUE, "messages[0].content[1]")
    assert no.detail == "The model 'demo' does not read images."


def test_a_copy_without_a_tower_refuses_them(tmp_path: Path) -> None:
    for file in tiny_model_path(SEEING).iterdir():
        if file.name != "model-vision.safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    image = file_of(photo())
    door = Door(Library())
    spec = wire.ModelSpec(name="demo", path=str(tmp_path))
    with pytest.raises(Refusal, match="'demo' does not read images"):
        run(door.look(asking(shown(image), text("a"), files=(image,)), spec))


def png_header(width: int, height: int) -> bytes:
    """Of a file that would grow to as much as it says."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    about = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    content = zlib.compress(bytes(1000))
    parts = (chunk(b"IHDR", about), chunk(b"IDAT", content), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("size", [(7200, 7200), (30_000, 30_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_before_it_is_decoded(size: tuple[int, int]) -> None:
    file = png_header(*size)
    no = refused(asking(shown(file), text("a"), files=(file,)))
    assert (no.code, no.param) == (wire.Code.INVALID_VALUE, "messages[0].content[0]")


def test_too_many_pixels_are_told_with_both_numbers() -> None:
    file = png_header(8000, 7000)
    no = refused(asking(shown(file), text("a"), files=(file,)))
    assert "8000 x 7000" in no.detail
    assert no.numbers == {"limit": images.MAX_PIXELS, "given": 56_000_000}


def test_a_jpeg_of_endless_passes_is_refused_at_once() -> None:
    """Each takes some 20 bytes of the file, and the decoder over all pixels."""
    whole = file_of(Image.new("RGB", (4000, 4000)), "JPEG", progressive=True)
    *_, last = whole.split(b"\xff\xda")
    bomb = whole[:-2] + (b"\xff\xda" + last[:-2]) * 100_000 + whole[-2:]
    began = time.process_time()
    no = refused(asking(shown(bomb), text("a"), files=(bomb,)))
    assert time.process_time() - began < 5.0  # decoding it would take a quarter of an hour
    assert (no.param, no.code) == ("messages[0].content[0]", wire.Code.INVALID_VALUE)
    assert len(check(asking(shown(whole), text("a"), files=(whole,))).images) == 1


BROKEN = {
    "empty": b"",
    "text": b"hello",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "cut png": file_of(photo())[:200],
    "cut jpeg": file_of(photo(), "JPEG")[:300],
    "cut webp": file_of(photo(), "WEBP")[:60],
    "cut gif": file_of(photo(), "GIF")[:30],
    "bmp": file_of(photo(), "BMP"),
    "tiff": file_of(photo(), "TIFF"),
    "no pixels": png_header(0, 0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_image_is_refused(name: str) -> None:
    file = BROKEN[name]
    no = refused(asking(text("a"), shown(file), files=(file,)))
    assert (no.code, no.param) == (wire.Code.INVALID_VALUE, "messages[0].content[1]")
    assert "no JPEG, PNG, WebP or GIF image" in no.detail


def test_broken_bytes_never_end_the_door() -> None:
    """Some hundred files with a few bytes changed: read, or refused."""
    random = np.random.default_rng(3)
    for kind in ("JPEG", "PNG", "WEBP", "GIF"):
        whole = np.frombuffer(file_of(photo(), kind), np.uint8)
        for _ in range(40):
            changed = whole.copy()
            changed[random.integers(0, len(whole), 5)] = random.integers(0, 256, 5)
            file = changed.tobytes()
            try:
                check(asking(shown(file), text("a"), files=(file,)))
            except Refusal as refusal:
                assert refusal.refused.param == "messages[0].content[0]"


@pytest.mark.parametrize("digest", [None, 7, "ab", ["ab"], {}])
def test_an_image_that_was_not_sent_is_refused(digest: object) -> None:
    no = refused(asking({"type": "image", "digest": digest}, text("a"), files=()))
    assert no.param == "messages[0].content[0]"
    assert "was not sent" in no.detail


def test_too_many_images_are_refused() -> None:
    file = file_of(photo())
    no = refused(asking(*[shown(file)] * 17, files=(file,)))
    assert (no.param, no.numbers) == ("messages", {"limit": 16, "given": 17})


def test_a_file_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_of(photo())
    monkeypatch.setattr(images, "MAX_FILE_BYTES", len(file) - 1)
    no = refused(asking(shown(file), files=(file,)))
    assert no.param == "messages[0].content[0]"
    assert no.numbers == {"limit": len(file) - 1, "given": len(file)}


def num_looks(door: Door, generate: wire.Generate) -> int:
    """How many images are decoded."""
    looking = door.look(generate, spec_of(SEEING))
    assert looking is not None
    return sum(1 for _ in looking)


def test_an_image_that_came_a_moment_ago_is_not_decoded_again() -> None:
    """Of the same sender, until all is to be forgotten."""
    first, second = file_of(photo()), file_of(photo(seed=2))
    door, files = Door(Library()), (first, second)
    assert num_looks(door, asking(shown(first), shown(first), files=files)) == 1
    assert num_looks(door, asking(shown(first), shown(second), files=files)) == 1
    both = asking(shown(first), shown(second), text("a"), files=files)
    assert num_looks(door, both) == 0
    assert num_looks(door, wire.replace(both, tenant="user:2")) == 2
    door.forget_texts(at_once=True)
    assert num_looks(door, both) == 2


def test_another_file_under_the_same_digest_is_another_image() -> None:
    """What is found again is found by what was sent."""
    first, second = file_of(photo()), file_of(photo(seed=2))
    door = Door(Library())
    digests = []
    for file in (first, second):
        generate = asking(shown(first), text("a"), files=(first,))
        generate = wire.replace(generate, images={shown(first)["digest"]: file})
        looking = door.look(generate, spec_of(SEEING))
        digests += [one.digest for one in run(looking)]
    assert digests[0] != digests[1]


@pytest.mark.parametrize("role", ["system", "assistant", "tool"])
def test_only_users_show_images(role: str) -> None:
    file = file_of(photo())
    messages = [{"role": "user", "content": "a"}, {"role": role, "content": [shown(file)]}]
    no = refused(generate_of(*messages, files=(file,)))
    assert no.param == "messages[1].content[0]"


def test_a_late_system_message_stands_behind_an_image(decode: Callable[..., str]) -> None:
    file = file_of(photo())
    late = {"role": "system", "content": "Be brief."}
    work = check(
        generate_of({"role": "user", "content": [text("a"), shown(file)]}, late, files=(file,))
    )
    said = decode(work.prompt_token_ids)
    assert said.index("<end_of_image>") < said.index("Be brief.")


def test_the_wire_carries_images_there_and_back() -> None:
    file = file_of(photo())
    generate = asking(shown(file), text("a"), files=(file,))
    assert wire.decode(wire.encode(generate)) == generate
    work = check(generate)
    assert wire.decode(wire.encode(work)) == work
    (packed,) = work.pixels.values()
    assert len(packed) < 3 * IMAGE_SIZE**2
