"""Every address of the service."""

from django.contrib import admin
from django.urls import include, path

from hosting.api.hello import hello
from hosting.api.rerank import Rerank

handler400 = "hosting.api.no_view.bad_request"
handler404 = "hosting.api.no_view.not_found"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("v1/", include("hosting.api.urls")),
    path("v2/rerank", Rerank.as_view()),  # as Cohere's clients call it
    path("rerank", Rerank.as_view()),  # and those of vLLM
    path("api/hello", hello),
    path("", include("hosting.health")),
    path("", include("accounts.urls")),
    path("", include("hosting.batches.urls")),
    path("", include("hosting.usage.urls")),
    path("", include("hosting.tools.urls")),
    path("", include("hosting.chat.urls")),
]
