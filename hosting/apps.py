"""The Django application `hosting`, and the administration with our site."""

from django.apps import AppConfig

# The module, not the class: Django takes every AppConfig it finds here for a candidate of its own
from django.contrib.admin import apps as admin_apps


class HostingConfig(AppConfig):
    name = "hosting"
    verbose_name = "Models"


class HearthAdminConfig(admin_apps.AdminConfig):
    default = False
    default_site = "hosting.admin_site.HearthAdminSite"
