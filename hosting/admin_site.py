"""The administration site: our sign-in page in front, the instruments among its addresses.

Apart from the package hosting.admin, which registers with this site while it is imported.
"""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from unfold.sites import UnfoldAdminSite


class HearthAdminSite(UnfoldAdminSite):
    site_header = site_title = "Hearth"
    index_title = "Administration"
    index_template = "admin/front.html"
    enable_nav_sidebar = True

    def extra_urls(self) -> list[URLPattern]:
        # They register with this site, which must exist first
        from hosting.admin import cache_clearing, instruments, live, memory_limit, reading

        return [
            path("live/", self.admin_view(live.page), name="live"),
            path("memory/", self.admin_view(instruments.memory), name="memory"),
            path("memory/limit/", self.admin_view(memory_limit.change_limit), name="memory-limit"),
            path("cache/", self.admin_view(instruments.cache), name="cache"),
            path("cache/clear/", self.admin_view(cache_clearing.clear), name="cache-clear"),
            path(
                "history/<slug:instrument>/", self.admin_view(instruments.data), name="history-data"
            ),
            path(
                "conversations/<int:user_id>/",
                self.admin_view(reading.conversations),
                name="conversations",
            ),
            path(
                "conversations/<int:user_id>/<uuid:conversation_id>/",
                self.admin_view(reading.conversation),
                name="conversation",
            ),
            path("live/data/", self.admin_view(live.data), name="live-data"),
            path("live/stop/<uuid:generation_id>/", self.admin_view(live.stop), name="live-stop"),
        ]

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Staff without a permission see no entry: they are told why."""
        groups = self.get_sidebar_list(request)
        is_open = any(item["has_permission"] for group in groups for item in group["items"])
        more = {"is_open": is_open} | (extra_context or {})
        return cast(HttpResponse, super().index(request, more))

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """One door for everybody, with its throttle. Who is in but may not see this is told so."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"))

    def logout(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        from accounts.views.sign_in import SignOutView

        return SignOutView.as_view()(request)

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("password")
