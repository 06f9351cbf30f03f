"""Every address of the service."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("v1/", include("hosting.api.urls")),
    path("", include("hosting.health")),
    path("", include("accounts.urls")),
    path("", include("hosting.usage.urls")),
    path("", include("hosting.chat.urls")),
]
