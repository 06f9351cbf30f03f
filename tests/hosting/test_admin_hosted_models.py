"""Models and generations in the administration."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client

from accounts.models import AuditRecord, User
from engine import wire
from engine.transport.connection import connect
from hosting.models import Conversation, Generation, HostedModel, Message

MODELS = "/admin/hosting/hostedmodel/"
REST = {"kind": "generate", "cache_memory_share": "0.5", "cache_disk_share": "1"}
REST |= {"boundary_interval_tokens": 512}
REST |= {"slice_tokens": 2048, "buffers": "keep", "draft_tokens": 0}
GENERATIONS = "/admin/hosting/generation/"


@pytest.fixture
def admin_page(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org", name="Root"))
    return browser


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "Tiny-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
    (folder / "model.safetensors").write_bytes(b"0" * 100)
    return folder


def commands_sent(redis_url: str) -> list[wire.Command]:
    with connect(redis_url) as redis:
        entries = redis.xrange(wire.Keys.CONTROL) + redis.xrange(wire.Keys.FORGET)
    return [wire.decode(next(iter(fields.values()))) for _, fields in entries]


def act(browser: Client, action: str, model: HostedModel, **more: str) -> Any:
    form = {"action": action, "_selected_action": str(model.pk), **more}
    return browser.post(MODELS, form, follow=True)


def test_a_folder_becomes_a_model_that_engines_hear_of(
    admin_page: Client, model_folder: Path, redis_url: str
) -> None:
    admin_page.post(f"{MODELS}add/", {"source": str(model_folder), "is_default": "on"})
    model = HostedModel.objects.get()
    assert (model.name, model.is_default, model.weight_bytes) == ("tiny-model", True, 100)
    (configure,) = commands_sent(redis_url)[-1:]
    assert isinstance(configure, wire.Configure)
    assert configure.models[0].path == str(model_folder)
    assert LogEntry.objects.get().change_message == "Added."


NO_MODELS = ["/nonexistent/folder", "", "no such thing at all"]
NO_MODELS += ["/" + "a" * 300, "~nobody-of-this-name/x", "org/" + "b" * 300]


@pytest.mark.parametrize("source", NO_MODELS)
def test_what_is_no_model_is_refused_with_a_reason(admin_page: Client, source: str) -> None:
    response = admin_page.post(f"{MODELS}add/", {"source": source})
    assert response.context["form"].errors["source"]
    assert not HostedModel.objects.exists()


@pytest.mark.parametrize("typed", ["tiny-model", ""])
def test_a_name_that_is_taken_is_not_taken_over(
    admin_page: Client, model: HostedModel, model_folder: Path, typed: str
) -> None:
    HostedModel.objects.update(name="tiny-model")  # as the folder's would be
    form = {"source": str(model_folder), "name": typed}
    assert "name" in admin_page.post(f"{MODELS}add/", form).context["form"].errors
    model.refresh_from_db()
    assert model.path == "/models/demo"


def test_a_bad_name_is_told_at_its_field(admin_page: Client, model_folder: Path) -> None:
    form = {"source": str(model_folder), "name": "bad name!"}
    errors = admin_page.post(f"{MODELS}add/", form).context["form"].errors
    assert list(errors) == ["name"]
    assert "Letters" in errors["name"][0]


def test_changed_settings_reach_the_engines(
    admin_page: Client, model: HostedModel, redis_url: str
) -> None:
    form = {"display_name": "Demo", "is_enabled": "on", "max_rows": 3, "max_queue": 10}
    form |= {"cache_sharing": "own", "pace": "custom"} | REST
    response = admin_page.post(
        f"{MODELS}{model.pk}/change/", form | {"stall_ms": 100, "decode_share": "0.7"}
    )
    assert response.status_code == 302
    (configure,) = commands_sent(redis_url)
    assert isinstance(configure, wire.Configure)
    assert (configure.models[0].max_rows, configure.models[0].decode_share) == (3, 0.7)
    assert configure.models[0].share_after is None
    assert configure.models[0].cache_memory_share == 0.5
    assert not configure.models[0].is_cached_on_disk


@pytest.mark.parametrize(
    ("pace", "numbers"),
    [
        ("throughput", (60_000, 0.0)),
        ("balanced", (250, 0.5)),
        ("interactive", (100, 0.75)),
        ("custom", (70, 0.6)),
    ],
)
def test_a_chosen_pace_reaches_the_engines_as_its_numbers(
    admin_page: Client, model: HostedModel, redis_url: str, pace: str, numbers: tuple[int, float]
) -> None:
    form = {"is_enabled": "on", "max_rows": 3, "max_queue": 10, "cache_sharing": "own"} | REST
    form |= {"pace": pace, "stall_ms": 70, "decode_share": "0.6"}
    assert admin_page.post(f"{MODELS}{model.pk}/change/", form).status_code == 302
    (configure,) = commands_sent(redis_url)
    assert isinstance(configure, wire.Configure)
    (spec,) = configure.models
    assert (spec.stall_ms, spec.decode_share) == numbers


def test_settings_out_of_range_are_refused(admin_page: Client, model: HostedModel) -> None:
    form = {"max_rows": 0, "max_queue": 10, "stall_ms": 0, "decode_share": "1.7"}
    form |= {"cache_sharing": "shared", "pace": "eager"}
    form |= REST | {"cache_memory_share": "1.2", "boundary_interval_tokens": 7}
    response = admin_page.post(f"{MODELS}{model.pk}/change/", form)
    errors = set(response.context["adminform"].form.errors)
    assert errors == {
        *("max_rows", "stall_ms", "decode_share", "pace"),
        *("cache_memory_share", "boundary_interval_tokens"),
    }


@pytest.mark.parametrize(
    ("action", "command"), [("load", wire.LoadModel), ("unload", wire.UnloadModel)]
)
def test_load_and_unload_ask_first_and_then_tell_the_engines(
    admin_page: Client, model: HostedModel, redis_url: str, action: str, command: Any
) -> None:
    assert "these models?" in act(admin_page, action, model).content.decode()
    assert commands_sent(redis_url) == []
    act(admin_page, action, model, confirmed="yes")
    assert commands_sent(redis_url) == [command(name="demo")]
    assert LogEntry.objects.count() == 1


@pytest.mark.parametrize("tier", ["memory", "disk"])
def test_clearing_a_tier_asks_first_and_reaches_the_engines(
    admin_page: Client, model: HostedModel, redis_url: str, tier: str
) -> None:
    assert "prompts?" in act(admin_page, f"clear_{tier}", model).content.decode()
    assert commands_sent(redis_url) == []
    act(admin_page, f"clear_{tier}", model, confirmed="yes")
    assert commands_sent(redis_url) == [wire.ClearCache(model="demo", tier=wire.CacheTier(tier))]
    assert LogEntry.objects.get().change_message.startswith("Clear prefixes")


def test_a_link_shows_the_question_only(
    admin_page: Client, model: HostedModel, redis_url: str
) -> None:
    response = admin_page.get(f"{MODELS}{model.pk}/unload", {"confirmed": "yes"}, follow=True)
    assert "Unload these models?" in response.content.decode()
    assert commands_sent(redis_url) == []


def test_a_folder_of_this_machine_is_not_fetched(admin_page: Client, model: HostedModel) -> None:
    response = act(admin_page, "fetch_again", model)
    assert [str(one) for one in response.context["messages"]] == [
        "Nothing was fetched: these models are folders of this machine."
    ]


@pytest.mark.parametrize("action", ["load", "unload", "reload", "default"])
@pytest.mark.parametrize("number", ["abc", "99"])
def test_an_action_on_a_model_that_is_not_there_is_not_found(
    admin_page: Client, model: HostedModel, number: str, action: str
) -> None:
    assert admin_page.get(f"{MODELS}{number}/{action}/").status_code == 404


def test_another_model_becomes_the_default(admin_page: Client, model: HostedModel) -> None:
    other = HostedModel.objects.create(name="other", path="/models/other")
    act(admin_page, "set_default", other, confirmed="yes")
    assert HostedModel.objects.get(is_default=True) == other


def test_without_redis_an_action_says_that_nothing_changed(
    admin_page: Client, model: HostedModel, settings: Any
) -> None:
    settings.REDIS_URL = "unix:///nonexistent/redis.sock"
    response = act(admin_page, "load", model, confirmed="yes")
    assert "Redis is away" in response.content.decode()
    assert not LogEntry.objects.exists()


def test_deleting_a_model_says_what_follows_and_what_stays(
    admin_page: Client, model: HostedModel
) -> None:
    chosen = {"action": "delete_selected", "_selected_action": [model.pk]}
    for page in (admin_page.get(f"{MODELS}{model.pk}/delete/"), admin_page.post(MODELS, chosen)):
        html = page.content.decode()
        assert "Answers that are being written end normally" in html
        assert "The weights stay on disk, in /models/demo." in html


def test_deleting_several_models_names_the_folders_that_there_are(
    admin_page: Client, model: HostedModel
) -> None:
    """What is still to be fetched has none."""
    others = [("coming", ""), ("other", "/models/other"), ("late", "")]
    rows = [model, *(HostedModel.objects.create(name=name, path=path) for name, path in others)]
    chosen = {"action": "delete_selected", "_selected_action": [row.pk for row in rows]}
    html = " ".join(admin_page.post(MODELS, chosen).content.decode().split())
    assert "The weights stay on disk, in /models/demo, /models/other." in html
    chosen["_selected_action"] = [rows[1].pk, rows[3].pk]
    assert "stay on disk" not in admin_page.post(MODELS, chosen).content.decode()


def test_a_removed_model_is_no_longer_served(
    admin_page: Client, model: HostedModel, redis_url: str
) -> None:
    admin_page.post(f"{MODELS}{model.pk}/delete/", {"post": "yes"})
    assert not HostedModel.objects.exists()
    gone, forgotten = wire.Configure(models=()), wire.ClearCache(model=model.name)
    assert commands_sent(redis_url) == [gone, forgotten]


def test_conversations_are_not_in_the_administration() -> None:
    registered = set(admin.site._registry)
    assert HostedModel in registered
    assert not registered & {Conversation, Message}


def make_generations(person: User) -> list[Generation]:
    return [
        Generation.objects.create(
            user=person, kind="chat", model_name="demo", tenant="user:1", priority="interactive",
            state=state, request="what was asked",
        )
        for state in ("running", "done", "failed")
    ]  # fmt: skip


def test_generations_can_be_read_and_not_changed(
    admin_page: Client, person: User, model: HostedModel
) -> None:
    generation = make_generations(person)[0]
    url = f"{GENERATIONS}{generation.pk}/change/"
    assert admin_page.get(GENERATIONS).status_code == 200
    assert b"what was asked" not in admin_page.get(url).content
    assert admin_page.post(url, {"state": "done"}).status_code == 403
    assert admin_page.get(f"{GENERATIONS}add/").status_code == 403


@pytest.mark.parametrize(
    ("query", "count"),
    [("state__exact=done", 1), ("model_name=demo", 3), ("q=ada@example.org", 3), ("q=eve", 0)],
)
def test_generations_are_found_by_filter_and_person(
    admin_page: Client, person: User, model: HostedModel, query: str, count: int
) -> None:
    make_generations(person)
    response = admin_page.get(f"{GENERATIONS}?{query}")
    assert len(response.context["cl"].result_list) == count


def test_a_long_list_takes_few_queries(
    admin_page: Client, person: User, django_assert_max_num_queries: Any
) -> None:
    for _ in range(8):
        make_generations(person)
    with django_assert_max_num_queries(8):
        admin_page.get(GENERATIONS)


def test_who_is_asked_to_stop_generations_is_told_whose_and_since_when(
    admin_page: Client, person: User
) -> None:
    running, done, failed = make_generations(person)
    began = datetime.datetime(2026, 11, 27, 18, 10, 5, tzinfo=datetime.UTC)
    Generation.objects.update(created_at=began)
    page = admin_page.post(
        GENERATIONS, {"action": "stop", "_selected_action": [running.pk, done.pk, failed.pk]}
    )
    told = re.findall("<li>(.*)</li>", page.content.decode().partition("hearth-confirm")[2])
    assert told == ["Ada, demo, since 27 Nov, 18:10:05 UTC"]
    page = admin_page.post(
        GENERATIONS, {"action": "stop", "_selected_action": [done.pk, failed.pk]}, follow=True
    )
    assert "They have all ended." in page.content.decode()


def test_stopping_from_the_list_asks_first_and_stops_the_open_ones(
    admin_page: Client, person: User
) -> None:
    generations = make_generations(person)
    form = {"action": "stop", "_selected_action": [str(one.pk) for one in generations]}
    assert "Stop these generations?" in admin_page.post(GENERATIONS, form).content.decode()
    admin_page.post(GENERATIONS, form | {"confirmed": "yes"})
    stopped = Generation.objects.filter(is_cancel_requested=True)
    assert [one.state for one in stopped] == ["running"]
    assert LogEntry.objects.count() == 1
    record = AuditRecord.objects.get()
    assert (record.action, record.actor) == ("generation.stop", "root@example.org")
    assert record.target == str(stopped[0].pk)


def test_deleting_a_person_names_none_of_their_conversations(
    admin_page: Client, person: User
) -> None:
    Conversation.objects.create(owner=person, title="my secret plan")
    make_generations(person)
    url = f"/admin/accounts/user/{person.pk}/delete/"
    assert b"my secret plan" not in admin_page.get(url).content
    admin_page.post(url, {"post": "yes"})
    assert not User.objects.filter(pk=person.pk).exists()


def test_reloading_unloads_first(admin_page: Client, model: HostedModel, redis_url: str) -> None:
    assert "Reload these" in act(admin_page, "reload", model).content.decode()
    act(admin_page, "reload", model, confirmed="yes")
    assert commands_sent(redis_url) == [
        wire.UnloadModel(name="demo"),
        wire.LoadModel(name="demo"),
    ]
    assert AuditRecord.objects.get().action == "model.reload"


@pytest.mark.parametrize(("action", "is_pinned"), [("pin", True), ("unpin", False)])
def test_pinning_reaches_the_engines(
    admin_page: Client, model: HostedModel, redis_url: str, action: str, is_pinned: bool
) -> None:
    HostedModel.objects.update(is_pinned=not is_pinned)
    act(admin_page, action, model, confirmed="yes")
    (configure,) = commands_sent(redis_url)
    assert isinstance(configure, wire.Configure)
    assert configure.models[0].is_pinned is is_pinned


def test_changed_settings_are_in_the_audit_record(admin_page: Client, model: HostedModel) -> None:
    form = {"is_enabled": "on", "max_rows": 3, "max_queue": 10, "cache_sharing": "own"} | REST
    form |= {"pace": "balanced", "stall_ms": 250, "decode_share": "0.5"}
    admin_page.post(f"{MODELS}{model.pk}/change/", form)
    record = AuditRecord.objects.get()
    assert record.action == "model.change"
    assert json.loads(record.before)["max_rows"] == 16
    assert json.loads(record.after)["max_rows"] == 3
