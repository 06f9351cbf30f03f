"""Address of the tools page."""

from django.urls import path

from hosting.tools import page

urlpatterns = [path("tools/", page.tools, name="tools")]
