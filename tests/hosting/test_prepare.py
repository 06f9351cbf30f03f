"""`manage.py prepare`: a fresh installation has all that its processes and people need."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from accounts.models import User
from hosting.models import HostedModel


@pytest.fixture
def data_dir(transactional_db: None, settings: Any, tmp_path: Path) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


def prepared() -> str:
    output = io.StringIO()
    call_command("prepare", stdout=output)
    return output.getvalue()


def test_it_prints_the_link_for_the_first_administrator(data_dir: Path) -> None:
    link = prepared().splitlines()[-1]
    assert Client().get(link).status_code == 200
    assert HostedModel.objects.get().name == "hearth-demo"


def test_it_makes_the_administrator_of_the_environment(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEARTH_ADMIN_EMAIL", "root@example.org")
    monkeypatch.setenv("HEARTH_ADMIN_PASSWORD", "from the environment")
    assert prepared() == ""
    assert User.objects.administrators().get().email == "root@example.org"
