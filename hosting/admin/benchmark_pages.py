"""The pages of benchmarks: one result, several side by side, a model's over time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.decorators import permission_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts.audit import address_of
from hosting.actions.benchmarks import cancel_benchmark
from hosting.actions.refusals import Refusal
from hosting.benchmarks.comparison import compare_accuracy, compare_speed
from hosting.benchmarks.extraction import lettered
from hosting.benchmarks.figures import shares_of, speed_rows
from hosting.benchmarks.over_time import history_of
from hosting.models import Benchmark

SEE, CANCEL, DELETE = (f"hosting.{verb}_benchmark" for verb in ("view", "change", "delete"))
MOST_COMPARED = 4
_ANSWERS_PER_PAGE = 50
_may_see = permission_required(SEE, raise_exception=True)


@require_GET
@never_cache
@_may_see
def result(request: HttpRequest, pk: str) -> HttpResponse:
    benchmark = _found(pk)
    shows_wrong = request.GET.get("show") == "wrong"
    context = {
        "title": str(benchmark).capitalize(),
        "benchmark": benchmark,
        "state": _state(benchmark),
        "speed": speed_rows(benchmark),
        "shares": shares_of(benchmark),
        "answers": _answers(benchmark, request.GET.get("page"), shows_wrong=shows_wrong),
        "shows_wrong": shows_wrong,
        "may_cancel": benchmark.is_open and request.user.has_perm(CANCEL),
        "may_delete": request.user.has_perm(DELETE),
    }
    return _page(request, "admin/benchmark.html", context)


@require_GET
@never_cache
@_may_see
def state(request: HttpRequest, pk: int) -> JsonResponse:
    return JsonResponse(_state(get_object_or_404(Benchmark, pk=pk)))


@require_GET
@_may_see
def answers(request: HttpRequest, pk: int) -> HttpResponse:
    """One a line, with its question."""
    benchmark = _found(pk)
    lines = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in _told(benchmark))
    response = HttpResponse(lines, content_type="application/jsonl; charset=utf-8")
    name = f"benchmark-{benchmark.pk}-answers.jsonl"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@require_POST
@permission_required(CANCEL, raise_exception=True)
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    try:
        cancel_benchmark(_found(pk), actor=request.user, address=address_of(request))
    except Refusal as refusal:
        messages.warning(request, refusal.message)
    return redirect("admin:hosting_benchmark_change", pk)


@require_GET
@never_cache
@_may_see
def compare(request: HttpRequest) -> HttpResponse:
    ids = [one for one in request.GET.get("runs", "").split(",") if one]
    if not 2 <= len(set(ids)) == len(ids) <= MOST_COMPARED:
        raise Http404
    runs = [_found(pk) for pk in ids]
    context = {
        "title": "Benchmarks side by side",
        "runs": runs,
        "conditions": _conditions(runs),
        "tables": [
            (title, lines)
            for title, lines in (
                ("Right answers", compare_accuracy(runs)),
                ("Speed", compare_speed(runs)),
            )
            if lines
        ],
    }
    return _page(request, "admin/benchmark_compare.html", context)


@require_GET
@never_cache
@_may_see
def over_time(request: HttpRequest) -> HttpResponse:
    name = request.GET.get("model", "")
    runs = Benchmark.objects.filter(model_name=name)
    if not runs.exists():
        raise Http404
    context = {
        "title": f"Benchmarks of {name} over time",
        "history": history_of(name),
        "runs": runs[:_ANSWERS_PER_PAGE],
    }
    return _page(request, "admin/benchmark_over_time.html", context)


def _page(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    context |= {**admin.site.each_context(request), "opts": Benchmark._meta}
    return TemplateResponse(request, template, context)


def _found(pk: int | str) -> Benchmark:
    if not (isinstance(pk, int) or (pk.isascii() and pk.isdigit() and len(pk) < 18)):
        raise Http404
    return get_object_or_404(Benchmark.objects.select_related("user", "question_set"), pk=pk)


def _state(benchmark: Benchmark) -> dict[str, Any]:
    """What changes while one looks."""
    return {
        "state": benchmark.state,
        "is_open": benchmark.is_open,
        "text": _progress(benchmark),
        "num_done": benchmark.num_done,
        "num_steps": benchmark.num_steps,
    }


def _progress(benchmark: Benchmark) -> str:
    if benchmark.is_open and benchmark.is_cancel_requested:
        return "Being cancelled"
    if benchmark.state == Benchmark.State.WAITING:
        before = Benchmark.objects.open().filter(created_at__lt=benchmark.created_at).count()
        return f"Waiting for {before} before it" if before else "Waiting for the background worker"
    if benchmark.state == Benchmark.State.RUNNING:
        done = f"{benchmark.num_done:,} of {benchmark.num_steps:,}"
        return f"{benchmark.doing or 'Beginning'}: {done}"
    return str(benchmark.get_state_display())


def _answers(benchmark: Benchmark, page: str | None, *, shows_wrong: bool) -> Any:
    rows = benchmark.answers.filter(is_right=False) if shows_wrong else benchmark.answers.all()
    found = Paginator(rows, _ANSWERS_PER_PAGE).get_page(page)
    for answer in found.object_list:
        answer.question = benchmark.question_set.questions[answer.number - 1]
        answer.choices = lettered(answer.question.get("choices", []))
    return found


def _told(benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    for answer in benchmark.answers.all():
        yield answer.told(benchmark.question_set.questions[answer.number - 1])


def _conditions(runs: list[Benchmark]) -> list[tuple[str, list[str], bool]]:
    """By name, what each says, and whether they differ."""
    names = dict.fromkeys(name for run in runs for name in run.conditions)
    rows = [(name, [run.conditions.get(name, "-") for run in runs]) for name in names]
    return [(name, values, len(set(values)) > 1) for name, values in rows]
