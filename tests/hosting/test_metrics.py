"""The memory guard and the prefix cache in /metrics."""

from __future__ import annotations

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from engine import wire
from engine.transport.connection import connect
from tests.hosting.failing_database import lost_database
from tests.makers import make_status


@pytest.fixture
def exposed(redis_url: str, transactional_db: None, client: Client) -> str:
    """/metrics, while an engine says all that it can."""
    model = wire.ModelCacheStatus(
        model="demo",
        num_lookups=3,
        looked_up_tokens=900,
        hit_disk_tokens=256,
        misses={"none": 1, "late": 2},
        missed_tokens={"unknown": 644},
        memory_bytes=5,
    )
    status = make_status(
        cache=wire.CacheStatus(
            memory=wire.MemoryTierStatus(
                budget_bytes=100, used_bytes=40, pinned_bytes=9, num_evicted=2
            ),
            disk=wire.DiskTierStatus(budget_bytes=1000, num_dropped=4, written_today_bytes=7),
            models=(model,),
        ),
        memory=wire.MemoryStatus(
            limit_bytes=500,
            level=wire.Level.TIGHT,
            num_preempted=6,
            others_bytes=80,
            num_lost_estimates=1,
        ),
    )
    with connect(redis_url) as redis:
        redis.sadd(wire.Keys.ENGINES, status.engine)
        redis.set(wire.Keys.engine(status.engine), wire.encode(status))
    return client.get("/metrics").content.decode()


EXPECTED = {
    ("hearth_guard_bytes", "part", "limit"): 500,
    ("hearth_guard_bytes", "part", "others"): 80,
    ("hearth_guard_level", "level", "tight"): 1,
    ("hearth_guard_events_total", "event", "preempted"): 6,
    ("hearth_guard_events_total", "event", "lost_estimates"): 1,
    ("hearth_cache_used_bytes", "tier", "memory"): 40,
    ("hearth_cache_budget_bytes", "tier", "disk"): 1000,
    ("hearth_cache_records_total", "event", "evicted"): 2,
    ("hearth_cache_records_total", "event", "dropped"): 4,
    ("hearth_cache_lookups_total", "model", "demo"): 3,
    ("hearth_cache_hit_tokens_total", "tier", "disk"): 256,
    ("hearth_cache_pinned_bytes", "engine", "engine-1"): 9,
    ("hearth_cache_misses_total", "reason", "late"): 2,
    ("hearth_cache_missed_tokens_total", "reason", "unknown"): 644,
    ("hearth_cache_model_bytes", "tier", "memory"): 5,
    ("hearth_cache_written_today_bytes", "engine", "engine-1"): 7,
}


def test_what_the_heartbeat_tells_is_exposed(exposed: str) -> None:
    found = {
        (sample.name, label, value): sample.value
        for family in text_string_to_metric_families(exposed)
        for sample in family.samples
        for label, value in sample.labels.items()
        if sample.value
    }
    assert {name: found.get(name) for name in EXPECTED} == EXPECTED
    assert ("hearth_guard_level", "level", "calm") not in found
    assert ("hearth_cache_misses_total", "reason", "none") not in found


def test_engines_are_told_while_the_database_is_away(exposed: str, client: Client) -> None:
    assert "hearth_database_up 1.0" in exposed
    with lost_database():
        answer = client.get("/metrics")
    told = answer.content.decode()
    assert answer.status_code == 200
    assert "hearth_database_up 0.0" in told and "hearth_generations" not in told
    assert 'hearth_engine_heartbeat_age_seconds{engine="engine-1"}' in told
