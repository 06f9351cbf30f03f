"""Benchmarks in the administration: started, watched, cancelled, compared, deleted."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.formats import date_format
from django.utils.timezone import localtime
from unfold.admin import ModelAdmin
from unfold.decorators import display

from accounts.audit import address_of
from hosting.actions.benchmarks import cancel_benchmark, delete_benchmark
from hosting.actions.refusals import Refusal
from hosting.admin import benchmark_pages as pages
from hosting.admin.benchmark_form import BenchmarkForm
from hosting.admin.cancelling import cancel_open
from hosting.benchmarks.figures import overall, speed_rows
from hosting.models import Benchmark

_STATE_COLOURS = {
    Benchmark.State.RUNNING.label: "warning",
    Benchmark.State.DONE.label: "success",
    Benchmark.State.FAILED.label: "danger",
    Benchmark.State.INTERRUPTED.label: "danger",
}


@admin.register(Benchmark)
class BenchmarkAdmin(ModelAdmin):
    list_display = ["when", "state_label", "model_name", "fewest", "most", "right", "note"]
    list_filter = ["state", "created_at"]
    list_per_page = 50
    search_fields = ["model_name", "note"]
    list_before_template = "admin/benchmark_models.html"
    empty_help = "How fast a model is here, and how many questions it answers rightly."
    actions = ["compare", "cancel"]

    def get_urls(self) -> list[URLPattern]:
        def own(route: str, view: Any, name: str) -> URLPattern:
            return path(route, self.admin_site.admin_view(view), name=f"hosting_benchmark_{name}")

        return [
            own("compare/", pages.compare, "compare"),
            own("over-time/", pages.over_time, "over_time"),
            own("<int:pk>/state/", pages.state, "state"),
            own("<int:pk>/answers.jsonl", pages.answers, "answers"),
            own("<int:pk>/cancel/", pages.cancel, "cancel"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        names = Benchmark.objects.order_by("model_name").values_list("model_name", flat=True)
        more = {"measured_models": list(names.distinct())}
        return super().changelist_view(request, more | (extra_context or {}))

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        initial = {"model": request.GET.get("model")}
        form = BenchmarkForm(request.POST or None, request.FILES or None, initial=initial)
        if form.is_valid() and (started := form.start(request.user, address_of(request))):
            return redirect("admin:hosting_benchmark_change", started.pk)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Start a benchmark",
            "form": form,
        }
        return TemplateResponse(request, "admin/benchmark_add.html", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        return pages.result(request, object_id)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Their thousands of answers are not listed."""
        return [str(one) for one in objs], {}, set(), []

    def delete_model(self, request: HttpRequest, obj: Benchmark) -> None:
        delete_benchmark(obj, actor=request.user, address=address_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Benchmark]) -> None:
        for benchmark in queryset:
            self.delete_model(request, benchmark)

    @admin.display(description="When (UTC)", ordering="created_at")
    def when(self, benchmark: Benchmark) -> str:
        return date_format(localtime(benchmark.created_at), "j M Y, H:i")

    @display(description="State", label=_STATE_COLOURS)
    def state_label(self, benchmark: Benchmark) -> str:
        return benchmark.get_state_display()

    @admin.display(description="Writing, fewest")
    def fewest(self, benchmark: Benchmark) -> str | None:
        return _writing(benchmark, min(benchmark.streams, default=0))

    @admin.display(description="Writing, most")
    def most(self, benchmark: Benchmark) -> str | None:
        return _writing(benchmark, max(benchmark.streams, default=0))

    @admin.display(description="Right (95 % interval)")
    def right(self, benchmark: Benchmark) -> str | None:
        share = overall(benchmark)
        return f"{share.figure.text} ({share.figure.range_text})" if share else None

    @admin.action(description="Compare", permissions=["view"])
    def compare(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        ids = [str(pk) for pk in queryset.order_by("created_at", "pk").values_list("pk", flat=True)]
        if not 2 <= len(ids) <= pages.MOST_COMPARED:
            message = f"Choose 2 to {pages.MOST_COMPARED} of them."
            self.message_user(request, message, messages.ERROR)
            return None
        return redirect(f"{reverse('admin:hosting_benchmark_compare')}?runs={','.join(ids)}")

    @admin.action(description="Cancel", permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return cancel_open(
            self,
            request,
            queryset.open(),
            partial(_cancel, request),
            question="Cancel these benchmarks?",
            consequence="What runs of them ends now. What they have measured is kept.",
            button="Cancel benchmarks",
        )


def _cancel(request: HttpRequest, benchmark: Benchmark) -> bool:
    try:
        cancel_benchmark(benchmark, actor=request.user, address=address_of(request))
    except Refusal:  # it has ended meanwhile
        return False
    return True


def _writing(benchmark: Benchmark, streams: int) -> str | None:
    rows = {row.key: row.figure for row in speed_rows(benchmark)}
    figure = rows.get(f"write-{streams}-total")
    return f"{figure.text}, {streams} at once" if figure else None
