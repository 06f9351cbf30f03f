"""The Django application `hosting`, and the administration with our site."""

from django.apps import AppConfig

# The module, not the class: Django takes every AppConfig it finds here for a candidate of its own
from django.contrib.admin import apps as admin_apps


class HostingConfig(AppConfig):
    name = "hosting"
    verbose_name = "Models"

    def ready(self) -> None:
        from django.contrib.auth.models import Group
        from django.db.models.signals import pre_delete

        from hosting.actions.deleted_groups import hold_what_it_pays

        pre_delete.connect(hold_what_it_pays, sender=Group)


class HearthAdminConfig(admin_apps.AdminConfig):
    default = False
    default_site = "hosting.admin_site.HearthAdminSite"
