"""What a browser sends with the button of a page's form, read from the page itself."""

from __future__ import annotations

from html.parser import HTMLParser

from django.http import HttpResponse
from django.test import Client

Fields = dict[str, list[str]]


class Tab:
    """A page that stays open: what it was opened with is sent, with the changes made in it."""

    def __init__(self, browser: Client, address: str) -> None:
        self._browser, self._address = browser, address
        page = browser.get(address)
        assert page.status_code == 200
        self.fields = _fields_of(page.content.decode())

    def save(self, **changes: str | list[str]) -> HttpResponse:
        answer: HttpResponse = self._browser.post(self._address, self.fields | changes)
        return answer


def _fields_of(html: str) -> Fields:
    reader = _Reader()
    reader.feed(html)
    return reader.fields


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.fields: Fields = {}
        self._select = self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name, value = given.get("name") or "", given.get("value")
        match tag:
            case "input" if name and given.get("type") not in ("submit", "file", "button"):
                is_box = given.get("type") in ("checkbox", "radio")
                if not is_box or "checked" in given:
                    self._send(name, "on" if value is None and is_box else value or "")
            case "select":
                self._select = name
            case "option" if self._select and "selected" in given:
                self._send(self._select, value or "")
            case "textarea":
                self._textarea = name

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self._send(self._textarea, data.removeprefix("\n"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._textarea = ""

    def _send(self, name: str, value: str) -> None:
        self.fields.setdefault(name, []).append(value)
