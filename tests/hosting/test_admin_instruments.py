"""The pages of plots: what they are told of the history, figures beside it, who may see them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.models import User
from engine import wire
from engine.transport.connection import connect
from hosting.actions.history import WINDOWS, record_readings
from hosting.models import HostedModel
from tests.makers import make_status

GB = 1_000_000_000


def cache_status(**fields: Any) -> wire.CacheStatus:
    return wire.CacheStatus(
        memory=wire.MemoryTierStatus(budget_bytes=2 * GB, used_bytes=GB),
        disk=wire.DiskTierStatus(budget_bytes=20 * GB, used_bytes=5 * GB, num_saved=7),
        models=(wire.ModelCacheStatus(model="demo", **fields),),
    )


def record(redis_url: str, now: float, **fields: Any) -> None:
    with connect(redis_url) as redis:
        redis.sadd(wire.Keys.ENGINES, "engine-1")
        redis.set(wire.Keys.engine("engine-1"), wire.encode(make_status("engine-1", **fields)))
    record_readings(now)


def plot_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(plot for plot in data["plots"] if plot["id"] == name)


def last_values(data: dict[str, Any], name: str) -> dict[str, float | None]:
    """By label, of the last slot that is known."""
    plot = plot_of(data, name)
    return {
        series["label"]: next((v for v in reversed(series["values"]) if v is not None), None)
        for series in (*plot["series"], *plot["limits"])
    }


@pytest.fixture
def admin_page(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org", name="Root"))
    return browser


@pytest.fixture
def clerks_page(transactional_db: None) -> Client:
    """The browser of somebody who may look after models, and not see requests."""
    clerk = User.objects.create_user("clerk@example.org", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename="view_hostedmodel"))
    browser = Client()
    browser.force_login(clerk)
    return browser


def history(browser: Client, instrument: str, **wishes: str) -> dict[str, Any]:
    data: dict[str, Any] = browser.get(f"/admin/history/{instrument}/", wishes).json()
    return data


def test_speed_is_plotted_by_the_slot(admin_page: Client, redis_url: str) -> None:
    record(redis_url, time.time(), decode_tokens_per_second=41.5, prefill_tokens_per_second=900.0)
    data = history(admin_page, "live", window="5m")
    assert last_values(data, "speed") == {"Writing": 41.5, "Reading": 900.0}
    assert len(data["times"]) == len(plot_of(data, "speed")["series"][0]["values"]) == 60


def test_memory_is_plotted_by_part_with_its_limits_and_marks(
    admin_page: Client, redis_url: str
) -> None:
    now = time.time()
    record(redis_url, now - 10, beat_at=now - 10, memory=wire.MemoryStatus(limit_bytes=20 * GB))
    memory = wire.MemoryStatus(
        limit_bytes=20 * GB,
        used_bytes=9 * GB,
        weight_bytes=5 * GB,
        row_bytes=GB,
        num_loads=1,
        marks=(wire.MemoryMark(kind="load", at=now - 3, model="demo", num_bytes=5 * GB),),
    )
    record(redis_url, now, beat_at=now, memory=memory)
    data = history(admin_page, "memory", window="5m")
    assert last_values(data, "memory") == {
        "Weights": 5 * GB, "Rows": GB, "Prefix cache": 0, "Pool": 0,
        "Limit": 20 * GB, "Tight": None, "Critical": None,
    }  # fmt: skip
    assert [(one["kind"], one["model"]) for one in data["marks"]] == [("load", "demo")]
    assert data["figures"]["now"]["limit_bytes"] == 20 * GB
    assert data["figures"]["counts"]["num_loads"] == 1


def test_the_highest_is_told_of_what_was_averaged(admin_page: Client, redis_url: str) -> None:
    now = time.time()
    for at, used in ((now - 120, 300 * GB), (now - 115, 700 * GB), (now, 300 * GB)):
        record(redis_url, at, process_bytes=used, active_bytes=used)
    process, used = plot_of(history(admin_page, "memory", window="30d"), "process")["series"]
    assert (process["highest"], process["is_peak"]) == (700 * GB, False)
    assert (used["highest"], used["is_peak"]) == (700 * GB, True)


def test_the_cache_is_told_by_model_and_by_tier(
    admin_page: Client, redis_url: str, model: HostedModel
) -> None:
    now = time.time()
    record(redis_url, now - 10, cache=cache_status())
    used = {"looked_up_tokens": 1000, "hit_memory_tokens": 600, "hit_disk_tokens": 150}
    used |= {"num_lookups": 4, "misses": {"unknown": 1}, "missed_tokens": {"unknown": 250}}
    record(redis_url, now, cache=cache_status(**used, memory_bytes=GB))
    data = history(admin_page, "cache", window="5m")
    assert last_values(data, "hit-rate") == {"Memory and disk": 75.0, "Disk alone": 15.0}
    assert last_values(data, "tokens") == {"From memory": 600, "From disk": 150, "Computed": 250}
    assert last_values(data, "disk-tier") == {"Used": 5 * GB, "Budget": 20 * GB}
    (told,) = data["figures"]["models"]
    assert (told["name"], told["pk"], told["hit_share"]) == ("demo", model.pk, 0.75)
    assert told["computed_tokens"] == 250
    assert data["figures"]["tiers"]["disk"]["num_saved"] == 7
    assert data["figures"]["misses"] == [
        {"reason": "Nobody had sent it", "num_lookups": 1, "tokens": 250}
    ]
    assert data["models"] == ["demo"]


def test_plots_of_one_model_leave_out_the_others(admin_page: Client, redis_url: str) -> None:
    now = time.time()
    for at, tokens in ((now - 10, 0), (now, 100)):
        models = tuple(
            wire.ModelCacheStatus(model=name, looked_up_tokens=tokens * times)
            for name, times in (("one", 1), ("two", 2))
        )
        memory = wire.MemoryTierStatus(budget_bytes=1)
        record(redis_url, at, cache=wire.CacheStatus(memory=memory, models=models))
    both = last_values(history(admin_page, "cache", window="5m"), "tokens")
    two = last_values(history(admin_page, "cache", window="5m", model="two"), "tokens")
    assert (both["Computed"], two["Computed"]) == (300, 200)


def test_without_an_engine_there_are_no_figures_of_now(admin_page: Client) -> None:
    assert history(admin_page, "memory")["figures"]["now"] is None
    assert history(admin_page, "cache")["figures"]["tiers"] == {"memory": None, "disk": None}


def test_without_redis_the_history_is_still_there(
    admin_page: Client, redis_url: str, settings: Any
) -> None:
    record(redis_url, time.time(), decode_tokens_per_second=41.5)
    settings.REDIS_URL = "unix:///nonexistent/redis.sock"
    assert last_values(history(admin_page, "live"), "speed")["Writing"] == 41.5
    assert admin_page.get("/admin/cache/").status_code == 200


@pytest.mark.parametrize("wishes", [{}, {"window": "9y"}, {"engine": "gone", "window": ""}])
def test_what_is_not_understood_is_the_default(admin_page: Client, wishes: dict[str, str]) -> None:
    assert history(admin_page, "cache", **wishes)["window"] == "1h"


def test_the_time_that_is_shown_is_said_as_people_do(admin_page: Client) -> None:
    assert history(admin_page, "cache", window="1h")["during"] == "in the last hour"
    assert history(admin_page, "cache", window="6h")["during"] == "in the last 6 hours"


@pytest.mark.parametrize("window", WINDOWS)
def test_every_window_opens(admin_page: Client, window: str) -> None:
    text = admin_page.get("/admin/memory/", {"window": window}).content.decode()
    assert f'"window": "{window}"' in text


def test_unknown_instruments_are_not_there(admin_page: Client) -> None:
    assert admin_page.get("/admin/history/wind/").status_code == 404


@pytest.mark.parametrize("url", ["/admin/memory/", "/admin/cache/", "/admin/history/live/"])
def test_members_see_nothing_of_it(page: Client, url: str) -> None:
    assert page.get(url, follow=True).status_code == 403


def test_who_looks_after_models_sees_the_cache_but_no_requests(clerks_page: Client) -> None:
    assert 'data-may-clear="no"' in clerks_page.get("/admin/cache/").content.decode()
    assert clerks_page.get("/admin/history/live/").status_code == 403
    assert clerks_page.get("/admin/memory/").status_code == 403
