"""The administrator's pages: where one is, what is wrong with a form, what can be chosen."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, accessibility_faults
from tests.stack import Stack

LOOKS = [(390, "dark"), (1280, "light")]
PERSON = "the.long.address.of.a.person@far-away.example.org"
_ADD_PERSON = """
from accounts.models import User
print(User.objects.get_or_create(email={email!r})[0].pk)
"""
_CUT = """crumb => {
    const [outer, inner] = [crumb.closest("h1"), crumb].map(one => one.getBoundingClientRect());
    return crumb.scrollWidth > crumb.clientWidth || inner.right > outer.right + 1
        || inner.bottom > document.querySelector("#content").getBoundingClientRect().top;
}"""


@pytest.fixture(scope="module")
def person(stack: Stack) -> str:
    """The path of somebody whose name is long."""
    number = stack.manage("shell", "-c", _ADD_PERSON.format(email=PERSON))
    return f"/admin/accounts/user/{number}/change/"


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_where_one_is_can_be_read(open_page: OpenPage, person: str, width: int, theme: str) -> None:
    page = open_page(person, width, theme)
    where = page.locator("h1 a")
    expect(where).to_have_text(["People", PERSON.capitalize()])
    assert [crumb.evaluate(_CUT) for crumb in where.all()] == [False, False]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert accessibility_faults(page) == []


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_wrong_fields_are_named_and_reached_by_keyboard(
    open_page: OpenPage, person: str, width: int, theme: str
) -> None:
    page = open_page(person, width, theme)
    page.get_by_label("E-mail").fill("nobody")
    page.get_by_role("button", name="Save", exact=True).click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("E-mail: Enter a valid email address.")
    expect(told).to_be_focused()
    assert accessibility_faults(page) == []
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    field = page.get_by_label("E-mail")
    expect(field).to_be_focused()
    expect(page.locator("label[for=id_email]")).to_be_in_viewport()
    expect(field).to_have_accessible_description(re.compile("Enter a valid email address."))
