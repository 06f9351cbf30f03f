"""`manage.py create_api_key EMAIL NAME`: the new key alone on the last line, for scripts."""

from __future__ import annotations

import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from accounts.keys import create_api_key
from accounts.models import ApiKey, User
from accounts.models.policy import MOST_DAYS

MOST_LETTERS = ApiKey._meta.get_field("name").max_length or 0


class Command(BaseCommand):
    help = "Create an API key for a person and print it. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", help="whose key it is")
        parser.add_argument("name", help="what it is for, as the keys page lists it")
        parser.add_argument("--days", type=int, help="expire after so many days (default: never)")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email=options["email"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active person with the e-mail {options['email']}.")
        expires_at = _expires_at(options["days"])
        _, secret = create_api_key(user=user, name=_checked(options["name"]), expires_at=expires_at)
        self.stdout.write(secret)


def _expires_at(days: int | None) -> datetime.datetime | None:
    if days is None:
        return None
    if not 1 <= days <= MOST_DAYS:
        raise CommandError(f"--days must be from 1 to {MOST_DAYS}.")
    return timezone.now() + datetime.timedelta(days=days)


def _checked(name: str) -> str:
    if not 1 <= len(name) <= MOST_LETTERS:
        raise CommandError(f"The name must have from 1 to {MOST_LETTERS} letters.")
    return name
