"""The tools page: set-ups with this server's address and a model that the person may use."""

from __future__ import annotations

import html
import json
import re
import tomllib

import pytest
from django.test import Client

from hosting.models import HostedModel

pytestmark = pytest.mark.usefixtures("model")
SLUGS = ("claude-code", "codex", "opencode", "continue", "cline", "openai", "anthropic", "curl")


def texts_on(page: Client, address: str = "/tools/") -> dict[str, str]:
    """The texts to copy, by their id, as a browser shows them."""
    body = page.get(address).content.decode()
    found = re.findall(r'<pre id="([^"]+)"[^>]*>(.*?)</pre>', body, re.DOTALL)
    return {name: html.unescape(re.sub(r"<[^>]+>", "", text)) for name, text in found}


def test_every_text_names_this_server_a_model_and_the_place_of_the_key(page: Client) -> None:
    texts = texts_on(page)
    for slug in SLUGS:
        together = "".join(text for name, text in texts.items() if name.startswith(f"{slug}-"))
        assert "http://testserver" in together, slug
        assert "demo" in together, slug
        assert "YOUR_KEY" in together, slug
        assert "{{" not in together


def test_the_texts_are_what_their_programs_can_read(page: Client) -> None:
    texts = texts_on(page)
    codex = tomllib.loads(texts["codex-1"])
    provider = codex["model_providers"][codex["model_provider"]]
    assert provider["base_url"] == "http://testserver/v1"
    assert provider["wire_api"] == "responses"
    assert codex["model_context_window"] == 4096
    opencode = json.loads(texts["opencode-1"])
    assert opencode["model"] == "hearth/demo"
    assert opencode["provider"]["hearth"]["models"]["demo"]["limit"]["context"] == 4096
    for name in ("openai-1", "anthropic-1"):
        compile(texts[name], name, "exec")


def test_another_model_can_be_chosen(page: Client) -> None:
    HostedModel.objects.create(name="org/other:4b", path="/x", context_limit_tokens=131072)
    assert "CLAUDE_CODE_AUTO_COMPACT_WINDOW=4096" in texts_on(page)["claude-code-1"]
    other = texts_on(page, "/tools/?model=org/other:4b")["claude-code-1"]
    assert "CLAUDE_CODE_AUTO_COMPACT_WINDOW=131072" in other
    assert "claude --model org/other:4b" in other
    assert "claude --model demo" in texts_on(page, "/tools/?model=gone")["claude-code-1"]


def test_claude_code_is_told_a_window_below_100000_tokens(page: Client) -> None:
    """The other setting it raises to 100,000; it would ask until the model refuses."""
    assert "CLAUDE_CODE_MAX_CONTEXT_TOKENS=4096\n" in texts_on(page)["claude-code-1"]


def test_a_model_that_is_too_small_for_agents_is_called_so(page: Client) -> None:
    assert "reads 4,096 tokens. Agents need at least 32,768" in page.get("/tools/").content.decode()
    HostedModel.objects.update(context_limit_tokens=131072)
    assert "Agents need" not in page.get("/tools/").content.decode()


def test_without_a_model_there_is_nothing_to_copy(page: Client) -> None:
    HostedModel.objects.update(is_enabled=False)
    response = page.get("/tools/")
    assert "No model is ready yet" in response.content.decode()
    assert texts_on(page) == {}


def test_the_page_is_for_people_who_are_signed_in() -> None:
    assert Client().get("/tools/").status_code == 302
