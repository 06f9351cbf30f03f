"""Images in the chat: attached in every way, made small and bare, sent, kept, and refused."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.browser.chat import ANSWER_MS, Chat
from tests.browser.conftest import OpenChat, accessibility_faults
from tests.browser.held import Held
from tests.pictures import in_base64, png
from tests.stack import Stack
from tests.tiny_models import SEEING, tiny_model_path

LOOKS = [(390, "dark"), (1280, "light")]
SEER, READER = "seer", "hearth-demo"
NAMES = {SEER: SEER, READER: "Hearth demo"}
# With its conversations, whose titles are whatever its few random weights say
GONE = f"""
from hosting.models import Conversation, HostedModel
HostedModel.objects.filter(name="{SEER}").delete()
Conversation.objects.filter(model_name="{SEER}").delete()
"""
RED, BLUE = (200, 30, 30), (30, 60, 200)
HAND_OVER = """async ([selector, kind, files]) => {
    const transfer = new DataTransfer();
    for (const [name, type, text] of files) {
        const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
        transfer.items.add(new File([bytes], name, { type }));
    }
    const options = { bubbles: true, cancelable: true };
    const event = kind === "paste"
        ? new ClipboardEvent(kind, { ...options, clipboardData: transfer })
        : new DragEvent(kind, { ...options, dataTransfer: transfer });
    document.querySelector(selector).dispatchEvent(event);
}"""


@pytest.fixture(scope="module", autouse=True)
def _seer(stack: Stack) -> Iterator[None]:
    stack.manage("add_model", str(tiny_model_path(SEEING)), "--name", SEER)
    yield
    stack.manage("shell", "-c", GONE)


@pytest.fixture
def open_seeing(open_chat: OpenChat) -> Callable[..., Chat]:
    def open_one(width: int = 1280, theme: str = "light", model: str = SEER) -> Chat:
        chat = open_chat(viewport={"width": width, "height": 900}, color_scheme=theme)
        chat.page.evaluate("name => localStorage.setItem('hearth-model', name)", model)
        chat.open()
        expect(chat.page.get_by_role("button", name=f"Model: {NAMES[model]}")).to_be_visible()
        return chat

    return open_one


@pytest.fixture
def seeing(open_seeing: Callable[..., Chat]) -> Chat:
    return open_seeing()


def picture(colour: tuple[int, int, int] = RED, *, width: int = 64, height: int = 48) -> bytes:
    return png(width, height, colour)


def choose(page: Page, *files: bytes, name: str = "a.png", kind: str = "image/png") -> None:
    given: list[FilePayload] = [{"name": name, "mimeType": kind, "buffer": one} for one in files]
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach images").click()
    chooser.value.set_files(given)


def thumbnails(page: Page) -> Locator:
    return page.get_by_role("list", name="Attached images").get_by_role("img")


def attached(page: Page, count: int = 1) -> None:
    """So many, and the server has them."""
    expect(page.locator("#attachments img")).to_have_count(count)
    expect(page.locator(".attachment-coming")).to_have_count(0)


def sent(chat: Chat) -> Locator:
    return chat.page.locator(".message-user .message-image img")


def bytes_of(page: Page, image: Locator) -> bytes:
    """As the server has them."""
    address = image.get_attribute("src")
    text = page.evaluate(
        """async address => {
            const bytes = new Uint8Array(await (await fetch(address)).arrayBuffer());
            return btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join(""));
        }""",
        address,
    )
    return base64.b64decode(text)


def stored(page: Page) -> Any:
    """The first of what is attached."""
    return Image.open(io.BytesIO(bytes_of(page, page.locator("#attachments img").first)))


def hand_over(page: Page, kind: str, files: list[tuple[str, str, bytes]]) -> None:
    plain = [[name, type_, in_base64(data)] for name, type_, data in files]
    target = "#message" if kind == "paste" else "#scroller"
    page.evaluate(HAND_OVER, [target, kind, plain])


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_an_image_is_attached_sent_shown_and_still_there_after_a_reload(
    open_seeing: Callable[..., Chat], width: int, theme: str
) -> None:
    chat = open_seeing(width, theme)
    choose(chat.page, picture(), picture(BLUE))
    attached(chat.page, 2)
    assert accessibility_faults(chat.page) == []
    chat.field.fill("What is this?")
    chat.field.press("Enter")
    expect(chat.bubbles.last).to_have_text("What is this?")
    expect(chat.page.locator("#attachments")).to_be_hidden()
    expect(sent(chat)).to_have_count(2)
    chat.whole_answer()
    assert accessibility_faults(chat.page) == []
    chat.page.reload()
    expect(sent(chat)).to_have_count(2)
    assert sent(chat).first.evaluate("image => image.decode().then(() => image.naturalWidth)") == 64


def test_an_image_opens_large_in_a_tab_of_its_own(seeing: Chat) -> None:
    choose(seeing.page, picture())
    attached(seeing.page)
    seeing.page.get_by_role("button", name="Send", exact=True).click()
    seeing.whole_answer()
    with seeing.page.context.expect_page() as opened:
        seeing.page.get_by_role("link", name="Image 1").press("Enter")
    expect(opened.value.locator("img")).to_be_visible()


@pytest.mark.parametrize("kind", ["paste", "drop"])
def test_images_are_pasted_and_dropped(seeing: Chat, kind: str) -> None:
    hand_over(seeing.page, kind, [("a.png", "image/png", picture())])
    attached(seeing.page)
    hand_over(seeing.page, kind, [("notes.txt", "text/plain", b"words")])
    expect(seeing.page.locator("#attach-note")).to_have_text("Only images can be attached.")
    attached(seeing.page)


def test_what_is_large_is_made_smaller(seeing: Chat) -> None:
    choose(seeing.page, picture(width=3000, height=1000))
    attached(seeing.page)
    assert stored(seeing.page).size == (2048, 683)


def test_a_photo_is_upright_and_tells_nothing_of_its_camera(seeing: Chat) -> None:
    photo = Image.new("RGB", (80, 40), RED)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "A telling camera"  # turned to the right; its maker
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", exif=exif)
    assert b"telling" in buffer.getvalue()
    choose(seeing.page, buffer.getvalue(), name="photo.jpg", kind="image/jpeg")
    attached(seeing.page)
    kept = stored(seeing.page)
    assert (kept.format, kept.size) == ("JPEG", (40, 80))
    assert not kept.getexif()


def test_an_image_is_removed_with_the_keyboard(seeing: Chat) -> None:
    choose(seeing.page, picture(), picture(BLUE))
    attached(seeing.page, 2)
    send = seeing.page.get_by_role("button", name="Send", exact=True)
    expect(send).to_be_enabled()
    seeing.page.get_by_role("button", name="Remove image 2").press("Enter")
    attached(seeing.page)
    expect(seeing.page.get_by_role("button", name="Remove image 1")).to_be_focused()
    seeing.page.keyboard.press("Enter")
    expect(seeing.page.locator("#attachments")).to_be_hidden()
    expect(seeing.field).to_be_focused()
    expect(send).to_be_disabled()


def test_what_is_no_image_or_one_too_many_is_told(seeing: Chat) -> None:
    note = seeing.page.locator("#attach-note")
    choose(seeing.page, b"<svg/>", name="bad.png")
    expect(note).to_have_text("“bad.png” cannot be read as an image.")
    expect(seeing.page.locator("#attachments")).to_be_hidden()
    choose(seeing.page, *(picture((shade, 0, 0)) for shade in range(9)))
    attached(seeing.page, 8)
    expect(note).to_have_text("A message may have 8 images.")


def test_a_message_waits_for_its_images(seeing: Chat) -> None:
    storing = Held(seeing.page, "**/chat/images")
    choose(seeing.page, picture())
    expect(seeing.page.get_by_role("img", name="Attached image 1 is on its way")).to_be_visible()
    seeing.field.fill("What is this?")
    seeing.field.press("Enter")
    expect(seeing.page.locator("#attach-note")).to_have_text("An image is still on its way.")
    expect(seeing.page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    storing.let_go()
    attached(seeing.page)
    seeing.field.press("Enter")
    expect(sent(seeing)).to_have_count(1)
    seeing.whole_answer()


def test_what_the_server_refuses_is_told(seeing: Chat, troubles: list[str]) -> None:
    refusal = {"error": {"code": "storage_limit_exceeded", "message": "No room.", "field": None}}
    seeing.page.route("**/chat/images", lambda route: route.fulfill(status=413, json=refusal))
    choose(seeing.page, picture())
    expect(seeing.page.locator("#attach-note")).to_have_text("No room.")
    expect(seeing.page.locator("#attachments")).to_be_hidden()
    troubles.clear()


def test_unsent_images_survive_a_reload(seeing: Chat) -> None:
    choose(seeing.page, picture())
    attached(seeing.page)
    seeing.field.fill("What is this?")
    seeing.page.reload()
    attached(seeing.page)
    expect(thumbnails(seeing.page)).to_have_count(1)
    expect(seeing.field).to_have_value("What is this?")
    expect(seeing.page.get_by_role("button", name="Send", exact=True)).to_be_enabled()


def test_a_draft_whose_image_is_gone_says_so(
    seeing: Chat, stack: Stack, troubles: list[str]
) -> None:
    choose(seeing.page, picture((1, 2, 3)))
    attached(seeing.page)
    stack.manage("shell", "-c", "from hosting.models import Image; Image.objects.all().delete()")
    seeing.page.reload()
    expect(seeing.page.locator("#attach-note")).to_contain_text(
        "An image that was not sent is gone"
    )
    expect(seeing.page.locator("#attachments")).to_be_hidden()
    troubles.clear()


def test_a_message_that_was_not_sent_gives_its_images_back(
    seeing: Chat, troubles: list[str]
) -> None:
    refusal = {"error": {"code": "unavailable", "message": "The database is away."}}
    seeing.page.route("**/chat/messages", lambda route: route.fulfill(status=503, json=refusal))
    choose(seeing.page, picture())
    attached(seeing.page)
    seeing.field.press("Enter")
    expect(seeing.page.locator("#composer-notice")).to_have_text("The database is away.")
    attached(seeing.page)
    troubles.clear()


def test_a_model_that_reads_text_only_says_why_it_takes_no_image(
    open_seeing: Callable[..., Chat],
) -> None:
    chat = open_seeing(model=READER)
    reason = "Hearth demo reads text only, no images."
    button = chat.page.get_by_role("button", name="Attach images")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", reason)
    button.focus()
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator("#attach-note")).to_have_text(reason)
    hand_over(chat.page, "paste", [("a.png", "image/png", picture())])
    expect(chat.page.locator("#attachments")).to_be_hidden()
    assert accessibility_faults(chat.page) == []


def test_images_are_not_lost_to_a_model_that_cannot_see_them(seeing: Chat) -> None:
    choose(seeing.page, picture())
    attached(seeing.page)
    seeing.page.get_by_role("button", name="Model: ").click()
    seeing.page.get_by_role("option", name="Hearth demo").click()
    seeing.field.press("Enter")
    expect(seeing.page.locator("#composer-notice")).to_contain_text("Hearth demo reads text only.")
    attached(seeing.page)
    seeing.page.get_by_role("button", name="Model: ").click()
    seeing.page.get_by_role("option", name=SEER).click()
    seeing.field.press("Enter")
    expect(sent(seeing)).to_have_count(1)
    seeing.whole_answer()


def test_an_edited_message_keeps_its_image_and_so_does_another_answer(seeing: Chat) -> None:
    choose(seeing.page, picture())
    attached(seeing.page)
    seeing.field.fill("What is this?")
    seeing.field.press("Enter")
    seeing.whole_answer()
    seeing.page.locator(".message-user").hover()
    seeing.page.get_by_role("button", name="Edit message").click()
    seeing.page.get_by_role("textbox", name="Edit message").fill("Who is this?")
    seeing.page.keyboard.press("Enter")
    expect(seeing.bubbles).to_have_text(["Who is this?"])
    seeing.whole_answer()
    expect(sent(seeing)).to_have_count(1)
    seeing.page.get_by_role("button", name="Regenerate").click()
    expect(seeing.last_answer).to_have_attribute("aria-busy", "false", timeout=ANSWER_MS)
    seeing.page.reload()
    expect(sent(seeing)).to_have_count(1)
