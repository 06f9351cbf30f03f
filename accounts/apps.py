"""The Django application `accounts`."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"
    verbose_name = "People and keys"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from allauth.socialaccount.signals import social_account_added

        from accounts.oidc import note_identity

        social_account_added.connect(note_identity)
