"""`manage.py doctor`: one line for each thing that must be right; exit code 1 when one is not."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from hosting.doctor import Finding, examine


class Command(BaseCommand):
    help = "Say what this machine and this installation have, and what to do about what they lack."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        findings = examine()
        for finding in findings:
            self._print(finding)
        if not all(finding.is_ok for finding in findings):
            sys.exit(1)

    def _print(self, finding: Finding) -> None:
        mark = self.style.SUCCESS("ok  ") if finding.is_ok else self.style.ERROR("FIX ")
        self.stdout.write(f"{mark} {finding.subject:<11} {finding.text}")
