"""`manage.py verify_audit`: whether anything in the audit record was changed or removed."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.audit import verify


class Command(BaseCommand):
    help = "Check the audit record's chain. Exits with 1 when something was changed or removed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--head", default="", help="a head from the log, NUMBER:MARK")

    def handle(self, *args: Any, **options: Any) -> None:
        verdict = verify(known_head=options["head"])
        if verdict.fault:
            raise CommandError(verdict.fault)
        self.stdout.write(f"{verdict.num_records} records, unbroken. Head: {verdict.head}")
