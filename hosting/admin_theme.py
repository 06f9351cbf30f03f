"""The administration's look and its navigation, as django-unfold's settings. Knows no models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def _may(permission: str) -> Callable[[HttpRequest], bool]:
    return lambda request: request.user.has_perm(permission)


def _is_administrator(request: HttpRequest) -> bool:
    return bool(request.user.is_superuser)


def _entry(title: str, icon: str, url_name: str, permission: str, purpose: str) -> dict[str, Any]:
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{url_name}"),
        "permission": _may(permission),
        "purpose": purpose,
    }


def _list(title: str, icon: str, model: str, purpose: str) -> dict[str, Any]:
    """The entry of a model's list. `model` is its label, like accounts.user."""
    app, name = model.split(".")
    return _entry(title, icon, f"{app}_{name}_changelist", f"{app}.view_{name}", purpose)


_NAVIGATION = [
    {
        "title": "Service",
        "items": [
            _entry(
                "Live",
                "monitor_heart",
                "live",
                "hosting.view_generation",
                "Engines, speed, and who is running or waiting.",
            ),
            _entry(
                "Memory",
                "memory",
                "memory",
                "hosting.view_generation",
                "What fills it, its limits, what was loaded, unloaded and refused.",
            ),
            _entry(
                "Prefix cache",
                "bolt",
                "cache",
                "hosting.view_hostedmodel",
                "How much of the prompts need not be computed again, and what that takes.",
            ),
            _list(
                "Models",
                "deployed_code",
                "hosting.hostedmodel",
                "Add, load and unload; settings and limits of each.",
            ),
            _list(
                "Quantised copies",
                "compress",
                "hosting.quantisation",
                "Smaller copies of models: how far each is, and why one failed.",
            ),
            _list(
                "Published prompts",
                "campaign",
                "hosting.publishedprompt",
                "System prompts that are computed once, for everybody.",
            ),
            _list(
                "Tool servers",
                "build",
                "hosting.toolserver",
                "What models may call in the chat, when the person agrees.",
            ),
            _list(
                "Generations",
                "forum",
                "hosting.generation",
                "Every answer: for whom, how long, how it ended.",
            ),
            _list(
                "Batches",
                "stacks",
                "hosting.batch",
                "Files of requests that are answered in the background.",
            ),
            _list(
                "Benchmarks",
                "avg_pace",
                "hosting.benchmark",
                "How fast a model is here, and how many questions it answers rightly.",
            ),
        ],
    },
    {
        "title": "People",
        "separator": True,
        "items": [
            _list("People", "person", "accounts.user", "Who may sign in, and what they may do."),
            _list("Groups", "group", "auth.group", "Permissions that several people share."),
            _list("Limits", "speed", "accounts.quota", "Of everybody; others beside their owner."),
            _list("API keys", "key", "accounts.apikey", "Whose they are, last used; revoke."),
            _list("Policies", "gavel", "accounts.policy", "How long things are kept; who reads.")
            | {"permission": _is_administrator},
            _list("Audit", "policy", "accounts.auditrecord", "Who changed what, from where, when."),
        ],
    },
    {
        "title": "Usage",
        "separator": True,
        "items": [
            _list(
                "By the hour",
                "bar_chart",
                "accounts.hourlyusage",
                "Requests and tokens by person, key and model.",
            ),
            _list(
                "Ledger",
                "receipt_long",
                "accounts.usagerecord",
                "One line for each answer, never changed.",
            ),
        ],
    },
]

# The tokens of the chat page, as the theme's scales: warm greys, and ember
_GREYS = {
    "50": "#f8f7f5",
    "100": "#efedea",
    "200": "#dfdbd6",
    "300": "#c9c3bb",
    "400": "#9d958c",
    "500": "#756d65",
    "600": "#5a534c",
    "700": "#433d38",
    "800": "#37322e",
    "900": "#211e1c",
    "950": "#181615",
}
_EMBER = {
    "50": "#fdf3ec",
    "100": "#fbe6da",
    "200": "#f6c9b0",
    "300": "#ffb27f",
    "400": "#ff9a5c",
    "500": "#ff8a47",
    "600": "#b5390c",
    "700": "#97300b",
    "800": "#7a2809",
    "900": "#5e2008",
    "950": "#3a2418",
}

UNFOLD = {
    "SITE_TITLE": "Hearth",
    "SITE_HEADER": "Hearth",
    "SITE_SUBHEADER": "Administration",
    "SITE_URL": "/",
    "SITE_ICON": lambda request: static("hosting/icons/favicon.svg"),
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": lambda request: static("hosting/icons/favicon.svg"),
        }
    ],
    "STYLES": [lambda request: static("hosting/admin/admin.css")],
    "COLORS": {"base": _GREYS, "primary": _EMBER},
    "SIDEBAR": {"navigation": _NAVIGATION},
    "ACCOUNT": {
        "navigation": [
            {"title": "Chat", "link": "/"},
            {"title": "API keys", "link": reverse_lazy("api-keys")},
        ]
    },
}
