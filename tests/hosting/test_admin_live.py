"""The live page: what engines and queue say, joined with who asked, and the stop button."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from accounts.models import User
from engine import wire
from engine.transport.connection import connect
from hosting.models import Generation
from tests.engine.transport.rig import Rig
from tests.makers import make_status

DATA = "/admin/live/data/"


def make_generation(user: User, *, age_seconds: float = 0, **fields: Any) -> Generation:
    created_at = timezone.now() - datetime.timedelta(seconds=age_seconds)
    return Generation.objects.create(
        user=user, kind="chat", model_name="demo", tenant="user:1", priority="interactive",
        request="what was asked", created_at=created_at, **fields,
    )  # fmt: skip


def make_row(generation: Generation, **fields: Any) -> wire.RowStatus:
    values = {
        "model": "demo",
        "tenant": "user:1",
        "state": "decoding",
        "prompt_tokens": 100,
        "cached_tokens": 64,
        "computed_tokens": 100,
        "output_tokens": 7,
        "age_seconds": 1.0,
    }
    return wire.RowStatus(request_id=str(generation.pk), **{**values, **fields})


def beat(redis_url: str, engine: str = "engine-1", **fields: Any) -> None:
    status = make_status(engine, **fields)
    with connect(redis_url) as redis:
        redis.sadd(wire.Keys.ENGINES, engine)
        redis.set(wire.Keys.engine(engine), wire.encode(status))


@pytest.fixture
def administrator(transactional_db: None) -> User:
    return User.objects.create_superuser("root@example.org", name="Root")


@pytest.fixture
def admin_page(administrator: User) -> Client:
    browser = Client()
    browser.force_login(administrator)
    return browser


@pytest.fixture
def viewers_page(transactional_db: None) -> Client:
    """The browser of somebody who may look and not touch."""
    viewer = User.objects.create_user("viewer@example.org", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename="view_generation"))
    browser = Client()
    browser.force_login(viewer)
    return browser


def test_the_page_opens_and_carries_its_first_picture(admin_page: Client, person: User) -> None:
    make_generation(person)
    text = admin_page.get("/admin/live/").content.decode()
    assert '"person": "Ada"' in text
    assert 'data-may-stop="yes"' in text


def test_what_was_asked_is_never_sent(admin_page: Client, person: User) -> None:
    make_generation(person)
    for url in ("/admin/live/", DATA, "/admin/hosting/generation/"):
        assert b"what was asked" not in admin_page.get(url).content


def test_an_engine_is_shown_with_its_heartbeat_and_models(
    admin_page: Client, redis_url: str
) -> None:
    models = (wire.ModelStatus(name="demo", state="loaded", weight_bytes=5),)
    beat(redis_url, beat_at=time.time() - 2, device="Apple M3", active_bytes=9, models=models)
    data = admin_page.get(DATA).json()
    (engine,) = data["engines"]
    assert data["notice"] == ""
    assert 2 <= engine["beat_age_seconds"] < 5
    assert (engine["device"], engine["active_bytes"]) == ("Apple M3", 9)
    assert engine["models"][0]["name"] == "demo"


def test_a_model_that_failed_is_explained_and_who_waits_for_one_that_loads_is_told_so(
    admin_page: Client, person: User, redis_url: str
) -> None:
    make_generation(person)
    models = (
        wire.ModelStatus(
            name="broken", state="failed", detail="no safetensors, or is the disk full?"
        ),
        wire.ModelStatus(name="demo", state="loading", loaded_fraction=0.4),
    )
    beat(redis_url, models=models)
    data = admin_page.get(DATA).json()
    (broken, demo), (request,) = data["engines"][0]["models"], data["requests"]
    assert broken["detail"].startswith("No safetensors, or is the disk full? A file of the weights")
    assert demo["loaded_fraction"] == 0.4
    assert request["state"] == "waits for its model"


def test_requests_come_running_first_then_by_place(
    admin_page: Client, person: User, redis_url: str, rig: Rig
) -> None:
    lost = make_generation(person, age_seconds=9)
    first, second = make_generation(person), make_generation(person)
    running = make_generation(person, state="running", client="curl/8.5.0")
    rig.submit(str(first.pk), str(second.pk))
    rig.admit_all()
    beat(redis_url, rows=(make_row(running),))
    data = admin_page.get(DATA).json()
    assert [one["id"] for one in data["requests"]] == [
        str(one.pk) for one in (running, lost, first, second)
    ]
    assert [one["state"] for one in data["requests"]] == [
        "decoding", "accepted", "queued, place 1", "queued, place 2",
    ]  # fmt: skip
    assert (data["num_running"], data["num_waiting"]) == (1, 3)
    row = data["requests"][0]
    assert (row["person"], row["client"], row["output_tokens"]) == ("Ada", "curl/8.5.0", 7)


def test_a_request_tells_where_it_left_the_nearest_stored_prefix(
    admin_page: Client, person: User, redis_url: str
) -> None:
    uses = (wire.PrefixUse(nearest_tokens=96, miss="not_owner"), wire.PrefixUse(nearest_tokens=64))
    rows = [make_row(make_generation(person), prefix=use) for use in uses]
    beat(redis_url, rows=tuple(rows))
    told = {one["id"]: one["prefix"] for one in admin_page.get(DATA).json()["requests"]}
    assert told[rows[0].request_id] == "96 stored: only somebody else had"
    assert told[rows[1].request_id] == ""


def test_ended_generations_are_not_there(admin_page: Client, person: User) -> None:
    make_generation(person, state="done")
    assert admin_page.get(DATA).json()["requests"] == []


def test_without_an_engine_the_page_says_so(admin_page: Client) -> None:
    assert "No engine reports" in admin_page.get(DATA).json()["notice"]


def test_a_stalled_engine_is_called_by_name(admin_page: Client, redis_url: str) -> None:
    beat(redis_url, stalled_seconds=12.0)
    data = admin_page.get(DATA).json()
    assert data["engines"][0]["is_stalled"]
    assert "engine-1 has work but has computed nothing for 12 s" in data["notice"]


def test_without_redis_the_page_still_shows_who_waits(
    admin_page: Client, person: User, settings: Any
) -> None:
    make_generation(person)
    settings.REDIS_URL = "unix:///nonexistent/redis.sock"
    data = admin_page.get(DATA).json()
    assert "Redis does not answer" in data["notice"]
    assert [one["person"] for one in data["requests"]] == ["Ada"]
    assert admin_page.get("/admin/live/").status_code == 200


def test_the_picture_takes_the_same_queries_for_one_request_as_for_many(
    admin_page: Client, person: User, django_assert_num_queries: Any
) -> None:
    for _ in range(20):
        make_generation(person)
    with django_assert_num_queries(3):  # session, person, generations
        admin_page.get(DATA)


def test_stopping_cancels_the_generation_and_is_logged(
    admin_page: Client, administrator: User, person: User, rig: Rig
) -> None:
    generation = make_generation(person)
    rig.submit(str(generation.pk))
    response = admin_page.post(f"/admin/live/stop/{generation.pk}/")
    assert response.json() == {"stopped": 1}
    generation.refresh_from_db()
    assert generation.is_cancel_requested
    assert isinstance(rig.client.read_events(str(generation.pk))[-1][1], wire.Finished)
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id) == (administrator, str(generation.pk))


def test_stopping_what_has_ended_changes_nothing(admin_page: Client, person: User) -> None:
    generation = make_generation(person, state="done")
    assert admin_page.post(f"/admin/live/stop/{generation.pk}/").json() == {"stopped": 0}
    assert not LogEntry.objects.exists()


def test_looking_is_not_stopping(viewers_page: Client, person: User) -> None:
    generation = make_generation(person)
    assert 'data-may-stop="no"' in viewers_page.get("/admin/live/").content.decode()
    assert viewers_page.post(f"/admin/live/stop/{generation.pk}/").status_code == 403
    generation.refresh_from_db()
    assert not generation.is_cancel_requested


def test_stopping_needs_a_post_with_the_token(
    admin_page: Client, administrator: User, person: User
) -> None:
    url = f"/admin/live/stop/{make_generation(person).pk}/"
    assert admin_page.get(url).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(administrator)
    assert strict.post(url).status_code == 403


@pytest.mark.parametrize("url", ["/admin/live/", DATA])
def test_members_see_nothing_of_it(page: Client, url: str) -> None:
    assert page.get(url, follow=True).status_code == 403


def test_each_request_is_told_with_the_engine_that_has_it(
    admin_page: Client, person: User, redis_url: str
) -> None:
    here, there = make_generation(person), make_generation(person)
    beat(redis_url, rows=(make_row(here),))
    beat(redis_url, engine="engine-2", rows=(make_row(there),))
    data = admin_page.get(DATA).json()
    engine_of = {one["id"]: one["engine"] for one in data["requests"]}
    assert engine_of == {str(here.pk): "engine-1", str(there.pk): "engine-2"}
    assert [engine["name"] for engine in data["engines"]] == ["engine-1", "engine-2"]
