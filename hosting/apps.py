"""The Django application `hosting`."""

from django.apps import AppConfig


class HostingConfig(AppConfig):
    name = "hosting"
    verbose_name = "Models and conversations"
