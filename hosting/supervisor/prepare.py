"""What must be true before the first process starts: tables, administrator, models published."""

from __future__ import annotations

from pathlib import Path

from django.core.management import call_command

from accounts.first_admin import ensure_admin_from_environment
from hosting.actions.hosted_models import ensure_demo_model, follow_data_folder, publish_models
from hosting.supervisor.locks import waiting_lock


def prepare(run_folder: Path) -> None:
    """Quick when nothing is to be done. Two supervisors of one data folder take turns."""
    with waiting_lock(run_folder / "prepare.lock"):
        call_command("migrate", verbosity=0, interactive=False)
        ensure_admin_from_environment()
        ensure_demo_model()
        follow_data_folder()
        publish_models()
