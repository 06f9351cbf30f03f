"""`manage.py prepare`: what `up` does before the first process starts, for starts by hand."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from accounts.first_admin import new_setup_url
from hosting.management.commands.up import own_place
from hosting.supervisor.prepare import DamagedDatabase, DatabaseAway, NewerDatabase, prepare


class Command(BaseCommand):
    help = "Make tables, administrator and demo model; print the link for the first administrator."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        run_folder = settings.DATA_DIR / "run"
        run_folder.mkdir(mode=0o700, exist_ok=True)
        try:
            prepare(run_folder)
        except (DamagedDatabase, DatabaseAway, NewerDatabase) as error:
            raise CommandError(str(error)) from error
        if url := new_setup_url(own_place().public_url):
            self.stdout.write(
                f"Nobody administers this installation yet. This link works once:\n{url}"
            )
