"""Health addresses, and what counts as ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client, RequestFactory

from engine import wire
from hosting.engine_patience import (
    SILENT_END_SECONDS,
    SILENT_RED_SECONDS,
    STALLED_END_SECONDS,
    STALLED_RED_SECONDS,
)
from hosting.health import may_read_metrics
from hosting.readiness import (
    engine_reasons,
    reasons_not_ready,
)

BEAT = wire.EngineStatus(
    engine="engine-1",
    pid=7,
    started_at=0.0,
    beat_at=100.0,
    stalled_seconds=0.0,
    device="cpu",
    active_bytes=0,
    pool_bytes=0,
    peak_bytes=0,
    process_bytes=0,
    decode_tokens_per_second=0.0,
    prefill_tokens_per_second=0.0,
    generated_tokens=0,
)


@pytest.mark.django_db
def test_a_full_disk_is_red(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    monkeypatch.setattr("hosting.readiness.MIN_FREE_BYTES", 1 << 60)
    assert any("disk" in reason for reason in reasons_not_ready())


def test_an_engine_that_beats_and_moves_is_ready() -> None:
    assert engine_reasons([BEAT], now=100.0 + SILENT_RED_SECONDS) == []


def test_without_an_engine_nothing_is_ready() -> None:
    assert engine_reasons([], now=100.0) == ["no engine is alive"]


def test_an_old_beat_is_red() -> None:
    (reason,) = engine_reasons([BEAT], now=100.1 + SILENT_RED_SECONDS)
    assert "no heartbeat" in reason


def test_work_without_progress_is_red_within_five_seconds() -> None:
    stalled = wire.replace(BEAT, stalled_seconds=STALLED_RED_SECONDS - 0.5)
    assert engine_reasons([stalled], now=100.0) == []
    # The next beat may be a second away: what has passed since this one counts
    assert "computed nothing" in engine_reasons([stalled], now=101.0)[0]


def test_red_comes_before_the_engine_is_ended() -> None:
    assert SILENT_RED_SECONDS < SILENT_END_SECONDS
    assert STALLED_RED_SECONDS < STALLED_END_SECONDS


def test_one_good_engine_of_two_is_enough() -> None:
    old = wire.replace(BEAT, engine="engine-2", beat_at=0.0)
    assert engine_reasons([old, BEAT], now=100.0) == []


@pytest.mark.parametrize("method", ["get", "head"])
def test_programs_that_first_ask_whether_anybody_is_there_are_answered(
    client: Client, method: str
) -> None:
    response = getattr(client, method)("/api/hello")
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    assert client.post("/api/hello").status_code == 405


def test_the_process_answers_without_any_store(client: Client) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.fixture
def no_redis(settings: Any, tmp_path: Path) -> None:
    settings.REDIS_URL = f"unix://{tmp_path}/nobody.sock"


@pytest.mark.django_db
@pytest.mark.usefixtures("no_redis")
def test_without_redis_the_service_is_red_and_says_so(client: Client) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "reasons": ["Redis does not answer"]}


@pytest.mark.django_db
def test_without_intake_and_engine_the_service_is_red_and_says_so(client: Client) -> None:
    assert client.get("/readyz").json()["reasons"] == [
        "no intake process is alive",
        "no engine is alive",
    ]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_redis")
def test_metrics_tell_that_redis_is_away(client: Client) -> None:
    answer = client.get("/metrics")
    assert b"hearth_redis_up 0.0" in answer.content
    assert b'hearth_generations{state="queued"} 0.0' in answer.content


@pytest.mark.parametrize(
    ("address", "headers", "token", "may"),
    [
        ("127.0.0.1", {}, "", True),
        ("::1", {}, "", True),
        ("192.0.2.1", {}, "", False),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.1"}, "", False),
        ("127.0.0.1", {}, "secret", False),
        ("192.0.2.1", {"Authorization": "Bearer secret"}, "secret", True),
        ("192.0.2.1", {"Authorization": "Bearer wrong"}, "secret", False),
    ],
)
def test_who_may_read_the_metrics(
    address: str, headers: dict[str, str], token: str, may: bool
) -> None:
    request = RequestFactory().get("/metrics", headers=headers, REMOTE_ADDR=address)
    assert may_read_metrics(request, token=token) is may
