"""The Django application `accounts`."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"
    verbose_name = "People and keys"
    default_auto_field = "django.db.models.BigAutoField"
