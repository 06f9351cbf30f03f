"""manage.py reset_second_factors EMAIL: for an administrator who has lost phone and codes."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts import second_factors
from accounts.models import User


class Command(BaseCommand):
    help = "Take a person's authenticator app, passkeys and recovery codes away."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")

    def handle(self, *args: Any, email: str, **options: Any) -> None:
        person = User.objects.filter(email=email).first()
        if person is None:
            raise CommandError(f"Nobody here has the e-mail {email}.")
        count = second_factors.reset(person, by=None)
        self.stdout.write(f"{count} second factors of {email} are gone; all sessions have ended.")
