"""`manage.py doctor`: what it says of a machine on which something is amiss."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from engine.transport.connection import connect
from hosting.doctor import Finding, examine
from hosting.models import HostedModel
from hosting.supervisor import openblas
from tests.hosting.web_process import web as web


def finding(subject: str) -> Finding:
    return next(one for one in examine() if one.subject == subject)


@pytest.mark.skipif(not openblas.is_wanted(), reason="not needed on this machine")
def test_an_openblas_that_is_not_there_is_told(
    db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "libopenblas.so.0"
    monkeypatch.setenv("HEARTH_OPENBLAS", str(library))
    told = finding("OpenBLAS")
    assert not told.is_ok and "HEARTH_OPENBLAS" in told.text
    library.touch()
    assert finding("OpenBLAS").is_ok


def test_a_model_without_weights_is_told(db: None, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "._model.safetensors").touch()  # macOS's, beside a file that is gone
    model = HostedModel(name="mine", path=str(tmp_path), state=HostedModel.State.READY)
    model.save()
    told = finding("models")
    assert not told.is_ok and f"mine ({tmp_path})" in told.text
    (tmp_path / "model.safetensors").touch()
    assert finding("models").is_ok


@pytest.mark.django_db(transaction=True)
def test_a_running_hearth_that_is_not_ready_is_told_with_the_reason(
    web: str, settings: Any
) -> None:
    settings.BIND, settings.PORT = "127.0.0.1", urlsplit(web).port
    told = finding("port")
    assert not told.is_ok and "no engine is alive" in told.text


def test_a_redis_that_evicts_is_told(
    db: None, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    assert finding("Redis").is_ok
    with connect(redis_url) as redis:
        redis.config_set("maxmemory-policy", "allkeys-lru")
        try:
            told = finding("Redis")
        finally:
            redis.config_set("maxmemory-policy", "noeviction")
    assert not told.is_ok and "maxmemory-policy noeviction" in told.text
