"""Set-ups to copy, one per program, with this server's address and a model that it serves.

The programs' own texts are in templates/tools/setups/. A key is never known here: the page's
script puts the one that the person pastes into the texts, and sends it nowhere.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from accounts.limits import allowance_of
from hosting.models import HostedModel

KEY_PLACE = mark_safe("<span data-key>YOUR_KEY</span>")
AGENT_CONTEXT_TOKENS = 32_768  # agents send 10,000 to 20,000 tokens before the first word


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One text to copy: what it is for, and the template that it is in."""

    caption: str | Promise
    template: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    slug: str
    name: str
    texts: tuple[Text, ...]
    note: str | Promise = ""
    is_agent: bool = False


_FILE = "tools/setups/{}"
SETUPS = (
    Setup(
        slug="claude-code",
        name="Claude Code",
        texts=(Text(caption=_("In the terminal"), template=_FILE.format("claude_code.sh")),),
        note=_(
            "The window makes it shorten a long conversation before it no longer fits the model;"
            " without the header its prompts are found again in the cache."
        ),
        is_agent=True,
    ),
    Setup(
        slug="codex",
        name="Codex",
        texts=(
            Text(caption="~/.codex/config.toml", template=_FILE.format("codex.toml")),
            Text(caption=_("In the terminal"), template=_FILE.format("codex.sh")),
        ),
        is_agent=True,
    ),
    Setup(
        slug="opencode",
        name="OpenCode",
        texts=(Text(caption="opencode.json", template=_FILE.format("opencode.json")),),
        is_agent=True,
    ),
    Setup(
        slug="continue",
        name="Continue",
        texts=(Text(caption="~/.continue/config.yaml", template=_FILE.format("continue.yaml")),),
    ),
    Setup(
        slug="cline",
        name="Cline",
        texts=(
            Text(
                caption=_("In its settings, with “OpenAI Compatible” as the provider"),
                template=_FILE.format("cline.txt"),
            ),
        ),
        is_agent=True,
    ),
    Setup(
        slug="openai",
        name=_("Python, openai"),
        texts=(Text(caption="pip install openai", template=_FILE.format("openai.py.txt")),),
    ),
    Setup(
        slug="anthropic",
        name=_("Python, anthropic"),
        texts=(Text(caption="pip install anthropic", template=_FILE.format("anthropic.py.txt")),),
    ),
    Setup(
        slug="curl",
        name="curl",
        texts=(Text(caption=_("In the terminal"), template=_FILE.format("curl.sh")),),
    ),
)


@login_required
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    limits = allowance_of(request.user, None).effective
    open_models = HostedModel.objects.servable().open_to(request.user)
    models = [row for row in open_models if limits.may_use(row.name)]
    return render(request, "tools/tools.html", _context(request, models))


def _context(request: HttpRequest, models: list[HostedModel]) -> dict[str, Any]:
    asked = request.GET.get("model")
    chosen = next((row for row in models if row.name == asked), models[0] if models else None)
    context_tokens = (chosen.context_limit_tokens if chosen else None) or AGENT_CONTEXT_TOKENS
    return {
        "setups": SETUPS,
        "models": models,
        "model": chosen,
        "context_tokens": context_tokens,
        "output_tokens": context_tokens // 4,
        "is_small": context_tokens < AGENT_CONTEXT_TOKENS,
        "root_url": request.build_absolute_uri("/").rstrip("/"),
        "key": KEY_PLACE,
    }
