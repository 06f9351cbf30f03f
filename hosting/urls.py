"""Every address of the service."""

from importlib.util import find_spec

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("v1/", include("hosting.api.urls")),
    path("", include("accounts.urls")),
    path("", include("hosting.chat.urls")),
]
if find_spec("hosting.health"):
    urlpatterns.insert(0, path("", include("hosting.health")))
