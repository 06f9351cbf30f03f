"""Every address of the service."""

from importlib.util import find_spec

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls)]
if find_spec("accounts.urls"):
    urlpatterns.append(path("", include("accounts.urls")))
