"""What the environment says, as a process that starts with it understands it."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import kombu
import pytest

from tests.environment import clear_settings
from tests.stack import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
READ = (
    "import json, sys; from hosting import settings; "
    "print(json.dumps(vars(settings)[sys.argv[1]], default=str))"
)


def setting(name: str, data_dir: Path, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", READ, name],
        cwd=ROOT,
        env=environ_of(data_dir, environment),
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


def environ_of(data_dir: Path, environment: dict[str, str]) -> dict[str, str]:
    return clear_settings(dict(os.environ)) | {"HEARTH_DATA_DIR": str(data_dir)} | environment


def refusal(data_dir: Path, command: str, **environment: str) -> str:
    """What the terminal says in place of a start."""
    done = subprocess.run(
        [sys.executable, "manage.py", command],
        cwd=ROOT,
        env=environ_of(data_dir, environment),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    return done.stderr


def test_names_may_have_blanks_between_them(tmp_path: Path) -> None:
    told = {"HEARTH_ALLOWED_HOSTS": " studio.local, 192.168.1.20 ,"}
    assert setting("ALLOWED_HOSTS", tmp_path, **told)[:3] == [
        *("studio.local", "192.168.1.20", "localhost"),
    ]
    told = {"HEARTH_OIDC_GROUPS": "ml-team = Research, ops=Operations"}
    assert setting("OIDC_GROUPS", tmp_path, **told) == {"ml-team": "Research", "ops": "Operations"}


def test_a_tilde_is_the_home_folder_where_no_shell_has_said_so(tmp_path: Path) -> None:
    told = {"HOME": str(tmp_path), "HEARTH_DATA_DIR": "~/hearth"}
    assert setting("DATA_DIR", tmp_path, **told) == str(tmp_path.resolve() / "hearth")


def test_hosts_are_names_and_addresses(tmp_path: Path) -> None:
    told = "Hearth.example.org,.example.org,192.168.1.20,[fd00::1],my_mac"
    hosts = setting("ALLOWED_HOSTS", tmp_path, HEARTH_ALLOWED_HOSTS=told)
    assert ",".join(hosts).startswith(told)
    assert setting("ALLOWED_HOSTS", tmp_path, HEARTH_ALLOWED_HOSTS="*")[0] == "*"


def test_the_address_that_it_listens_on_is_allowed(tmp_path: Path) -> None:
    assert "192.168.1.20" in setting("ALLOWED_HOSTS", tmp_path, HEARTH_BIND="192.168.1.20")
    assert "[fd00::1]" in setting("ALLOWED_HOSTS", tmp_path, HEARTH_BIND="fd00::1")


def test_origins_are_written_as_browsers_send_them(tmp_path: Path) -> None:
    told = {"HEARTH_CORS_ORIGINS": "https://App.example.org, app://obsidian.md"}
    origins = ["https://app.example.org", "app://obsidian.md"]
    assert setting("CORS_ALLOWED_ORIGINS", tmp_path, **told) == origins
    assert setting("CORS_ALLOW_ALL_ORIGINS", tmp_path, HEARTH_CORS_ORIGINS="*") is True


def test_other_pages_of_this_machine_are_not_trusted(tmp_path: Path) -> None:
    told = {"HEARTH_ALLOWED_HOSTS": "hearth.example.org", "HEARTH_HTTPS": "1"}
    assert setting("CSRF_TRUSTED_ORIGINS", tmp_path, **told) == ["https://hearth.example.org"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PORT", "abc"),
        ("PORT", "70000"),
        ("DATABASE_URL", "postgres://hearth@host:port/name"),
        ("HEARTH_RETENTION_DAYS", "999999"),
        ("HEARTH_LOG_FORMAT", "xml"),
        ("HEARTH_HTTPS", "maybe"),
        ("HEARTH_CORS_ORIGINS", "app.example.org"),
        ("HEARTH_CORS_ORIGINS", "https://app.example.org/"),
        ("HEARTH_CORS_ORIGINS", "https://*.example.org"),
        ("HEARTH_CORS_ORIGINS", "https://app.example.org, *"),
        ("HEARTH_ALLOWED_HOSTS", "https://hearth.example.org"),
        ("HEARTH_ALLOWED_HOSTS", "hearth.example.org:8000"),
        ("HEARTH_ALLOWED_HOSTS", "hearth.example.org, *.example.org"),
        ("HEARTH_ALLOWED_HOSTS", "fd00::1"),
        ("REDIS_URL", "localhost:6379"),
        ("REDIS_URL", "redis://localhost:abc/0"),
        ("REDIS_URL", "redis://localhost/abc"),
        ("REDIS_URL", "redis://:pass/word@localhost"),
        ("HEARTH_LOG_LEVEL", "LOUD"),
        ("HEARTH_SETTINGS_KEPT_SECONDS", "abc"),
        ("HEARTH_SETTINGS_KEPT_SECONDS", "nan"),
    ],
)
def test_a_wrong_value_is_told_in_a_sentence(tmp_path: Path, variable: str, value: str) -> None:
    told = refusal(tmp_path, "check", **{variable: value})
    assert variable in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HEARTH_BIND", "nowhere.invalid"),
        ("HEARTH_WEB_PROCESSES", "two"),
        ("HEARTH_ENGINE_NAME", "my engine"),
        ("HEARTH_ENGINES", "left,my engine"),
        ("HEARTH_ENGINES", "0"),
        ("HEARTH_MEMORY_LIMIT_GB", "lots"),
        ("HEARTH_CACHE_DISK_GB", "-1"),
        ("HEARTH_CPU_DTYPE", "bf16"),
    ],
)
def test_what_cannot_be_started_is_told_before_anything_starts(
    tmp_path: Path, variable: str, value: str
) -> None:
    told = refusal(tmp_path, "up", PORT=str(free_port()), **{variable: value})
    assert variable in told
    assert "taken" not in told and "Traceback" not in told
    assert not (tmp_path / "redis").exists() and not (tmp_path / "db.sqlite3").exists()


def test_what_is_empty_is_not_set(tmp_path: Path) -> None:
    empty = dict.fromkeys(("PORT", "DATABASE_URL", "REDIS_URL", "HEARTH_HTTPS"), "")
    assert setting("PORT", tmp_path, **empty) == 8000
    assert setting("REDIS_URL", tmp_path, **empty).startswith("unix://")


def test_the_database_is_in_the_data_folder_whatever_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "c#+ 50%41?ü"
    databases = setting("DATABASES", folder, DATABASE_URL="")
    assert databases["default"]["NAME"] == str(folder / "db.sqlite3")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"ssl_cert_reqs": "required"}),
        ("?ssl_ca_certs=/ca.pem", {"ssl_ca_certs": "/ca.pem"}),  # required by redis-py's default
        ("?ssl_cert_reqs=none", {"ssl_cert_reqs": ssl.CERT_NONE}),
    ],
)
def test_the_background_worker_believes_no_redis_without_its_certificate(
    tmp_path: Path, query: str, expected: dict[str, Any]
) -> None:
    told = {"REDIS_URL": f"rediss://:secret@redis.example.org:6379/0{query}"}
    use_ssl = setting("CELERY_BROKER_USE_SSL", tmp_path, **told)
    connection = kombu.Connection(setting("CELERY_BROKER_URL", tmp_path, **told), ssl=use_ssl)
    assert connection.ssl == expected
