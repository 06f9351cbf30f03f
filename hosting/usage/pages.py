"""My usage with my limits, and the team's usage for managers and administrators."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from accounts.audit import record_of
from accounts.figures import Sums, Usage
from accounts.invitations import groups_managed_by, may_invite, people_seen_by
from accounts.models import ApiKey
from hosting.usage.choices import WINDOWS, Asked, ask_own, ask_team
from hosting.usage.names import named_keys, names_of_people, renamed
from hosting.usage.plots import Split, history

_MOST_ROWS = 100  # of a table on a page
_CSV_COLUMNS = (
    *("requests", "errors", "prompt_tokens", "cached_tokens", "completion_tokens"),
    *("reasoning_tokens", "ttft_p50", "ttft_p95"),
)


@login_required
@require_GET
@never_cache
def my_usage(request: HttpRequest) -> HttpResponse:
    asked = ask_own(request.user, request.GET)
    usage = Usage(asked.choice)
    models = usage.by("model_name")
    split = Split(column="model_name", largest=[row.label for row in models], names={})
    context = _context(request, asked, usage, split) | {
        "tables": _tables(Models=models, Keys=named_keys(usage.by("api_key_id"))),
        "keys": ApiKey.objects.filter(user=request.user),
    }
    return render(request, "usage/mine.html", context)


@login_required
@require_GET
@never_cache
def team_usage(request: HttpRequest) -> HttpResponse:
    asked = _ask_team(request)
    usage = Usage(asked.choice)
    people = usage.by("user_id")
    names = names_of_people(people)
    split = Split(column="user_id", largest=[row.label for row in people], names=names)
    context = _context(request, asked, usage, split) | {
        "tables": _tables(
            People=renamed(people, names),
            Models=usage.by("model_name"),
            Keys=named_keys(usage.by("api_key_id")),
        ),
        "people": people_seen_by(request.user).order_by("name", "email"),
        "groups": groups_managed_by(request.user).order_by("name"),
    }
    return render(request, "usage/team.html", context)


@login_required
@require_GET
def my_csv(request: HttpRequest) -> HttpResponse:
    return _csv(Usage(ask_own(request.user, request.GET).choice).by("model_name"), "model")


@login_required
@require_GET
def team_csv(request: HttpRequest) -> HttpResponse:
    asked = _ask_team(request)
    record_of(request, "usage.export", target=asked.person or asked.group or "everybody")
    people = Usage(asked.choice).by("user_id")
    return _csv(renamed(people, names_of_people(people)), "person")


def _ask_team(request: HttpRequest) -> Asked:
    if not may_invite(request.user):
        raise PermissionDenied
    return ask_team(request.user, request.GET)


def _context(request: HttpRequest, asked: Asked, usage: Usage, split: Split) -> dict[str, Any]:
    return {
        "asked": asked,
        "windows": [(name, label) for name, (label, _) in WINDOWS.items()],
        "total": usage.total,
        "models": [row.label for row in usage.by("model_name")],
        "history": history(asked.choice, split, asked.window),
        "query": request.GET.urlencode(),
        "may_see_team": may_invite(request.user),
    }


def _tables(**tables: Sequence[Sums]) -> list[tuple[str, Sequence[Sums]]]:
    return [(title, rows[:_MOST_ROWS]) for title, rows in tables.items()]


def _csv(rows: Sequence[Sums], what: str) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="usage.csv"'
    writer = csv.writer(response)
    writer.writerow([what, *_CSV_COLUMNS])
    for row in rows:
        writer.writerow([_harmless(row.label), *(getattr(row, name) for name in _CSV_COLUMNS)])
    return response


def _harmless(text: str) -> str:
    """A name that a spreadsheet would take for a formula stays a name."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
