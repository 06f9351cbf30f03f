"""Lists that show by themselves how far is what is under way; others ask for nothing."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin


class UnderWayList(ModelAdmin):
    change_list_template = "admin/under_way_list.html"

    def is_under_way(self) -> bool:
        """Whether anything in the list may change without somebody's doing."""
        raise NotImplementedError

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        told = {"is_under_way": self.is_under_way()}
        return super().changelist_view(request, {**(extra_context or {}), **told})
