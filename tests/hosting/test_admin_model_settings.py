"""The settings of a model in the administration: checked together, estimated, recorded."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from accounts.models import AuditRecord, User
from engine import wire
from engine.transport.connection import connect
from hosting.actions.hosted_models import spec_of
from hosting.models import HostedModel, MemoryLimit
from tests.hosting.hostile_requests import NOT_STORABLE

GIB = 1024**3
MODELS = "/admin/hosting/hostedmodel/"
# As a small Llama: 64 KiB a token of keys and values
CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 64,
    "intermediate_size": 8192, "vocab_size": 32_000, "max_position_embeddings": 32_768,
}  # fmt: skip
FORM = {
    "kind": "generate", "is_enabled": "on", "max_rows": 4, "max_queue": 10,
    "context_limit_tokens": 8192, "cache_sharing": "shared", "cache_memory_share": "1",
    "cache_disk_share": "1",
    "boundary_interval_tokens": 2048, "slice_tokens": 2048, "buffers": "keep", "draft_tokens": 0,
    "pace": "balanced", "stall_ms": 250, "decode_share": "0.5", "template_options": "{}",
}  # fmt: skip


@pytest.fixture
def admin_page(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org", name="Root"))
    return browser


@pytest.fixture
def onlooker(transactional_db: None) -> Client:
    """Staff who may look at models and nothing else."""
    person = User.objects.create_user("sam@example.org", name="Sam", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    browser = Client()
    browser.force_login(person)
    return browser


@pytest.fixture
def small(transactional_db: None, tmp_path: Path) -> HostedModel:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return HostedModel.objects.create(
        name="small",
        path=str(tmp_path),
        weight_bytes=2 * GIB,
        context_limit_tokens=8192,
        max_rows=4,
    )


def beat(redis_url: str, limit_gb: float, *models: wire.ModelStatus, **memory: Any) -> None:
    status = wire.EngineStatus(
        engine="engine-1", pid=1, started_at=0, beat_at=time.time(), stalled_seconds=0,
        device="gpu", active_bytes=0, pool_bytes=0, peak_bytes=0, process_bytes=0,
        decode_tokens_per_second=0, prefill_tokens_per_second=0, generated_tokens=0,
        models=models, memory=wire.MemoryStatus(limit_bytes=int(limit_gb * GIB), **memory),
    )  # fmt: skip
    with connect(redis_url) as redis:
        redis.sadd(wire.Keys.ENGINES, "engine-1")
        redis.set(wire.Keys.engine("engine-1"), wire.encode(status))


def save(browser: Client, model: HostedModel, **changes: Any) -> Any:
    form = FORM | {name: value for name, value in changes.items() if value is not None}
    return browser.post(f"{MODELS}{model.pk}/change/", form)


def errors_of(response: Any) -> dict[str, str]:
    if response.status_code == 302:
        return {}
    return {name: one[0] for name, one in response.context["adminform"].form.errors.items()}


def ask(browser: Client, model: HostedModel, **changes: Any) -> dict[str, Any]:
    answer = browser.post(f"{MODELS}{model.pk}/estimate/", FORM | changes)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def published(redis_url: str) -> wire.Configure:
    with connect(redis_url) as redis:
        found = wire.decode(redis.get(wire.Keys.MODELS))
    assert isinstance(found, wire.Configure)
    return found


def test_every_setting_reaches_the_engine_or_the_row(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    group = Group.objects.create(name="research")
    response = save(
        admin_page, small, slice_tokens=512, buffers="clear", memory_ceiling_gb="7.5",
        memory_share="0.5", idle_unload_seconds=60, max_queue=3, default_presence_penalty="0.5",
        default_repetition_penalty="1.1", template_options='{"enable_thinking": false}',
        allowed_groups=[group.pk], cache_disk_share="0.25",
    )  # fmt: skip
    assert errors_of(response) == {}
    (spec,) = published(redis_url).models
    assert (spec.most_slice_tokens, spec.clears_buffers) == (512, True)
    assert (spec.memory_ceiling_bytes, spec.memory_share) == (int(7.5 * GIB), 0.5)
    assert (spec.cache_memory_share, spec.cache_disk_share) == (1, 0.25)
    assert (spec.idle_unload_seconds, spec.max_queue, spec.max_rows) == (60, 3, 4)
    small.refresh_from_db()
    assert (small.default_presence_penalty, small.default_repetition_penalty) == (0.5, 1.1)
    assert small.template_options == {"enable_thinking": False}
    assert list(small.allowed_groups.all()) == [group]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"context_limit_tokens": 40_000}, "context_limit_tokens"),
        ({"context_limit_tokens": 0}, "context_limit_tokens"),
        ({"max_queue": 0}, "max_queue"),
        ({"max_rows": 0}, "max_rows"),
        ({"default_max_tokens": 8192}, "default_max_tokens"),
        ({"default_top_k": 32_001}, "default_top_k"),
        ({"default_presence_penalty": 3}, "default_presence_penalty"),
        ({"default_repetition_penalty": 0}, "default_repetition_penalty"),
        ({"slice_tokens": 16}, "slice_tokens"),
        ({"memory_share": "1.5"}, "memory_share"),
        ({"kv_bits": 3}, "kv_bits"),
        ({"draft_tokens": 33}, "draft_tokens"),
        ({"draft_model": 10**6}, "draft_model"),
        ({"cache_disk_share": 0}, "cache_disk_share"),
        ({"is_pinned": "on", "idle_unload_seconds": 60}, "idle_unload_seconds"),
        ({"template_options": "[1]"}, "template_options"),
        ({"template_options": '{"messages": []}'}, "template_options"),
        ({"template_options": "{"}, "template_options"),
        *[({"template_options": text}, "template_options") for text in NOT_STORABLE],
        ({"memory_ceiling_gb": "1e300"}, "memory_ceiling_gb"),
        ({"max_rows": 1_000_000, "may_wait": "on"}, "max_rows"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    admin_page: Client, small: HostedModel, changes: dict[str, Any], field: str
) -> None:
    assert set(errors_of(save(admin_page, small, **changes))) == {field}
    assert set(ask(admin_page, small, **changes)["errors"]) == {field}


def test_the_estimate_says_what_it_is_made_of(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    beat(redis_url, 20)
    panel = ask(admin_page, small)["panel"].replace("\xa0", " ")
    assert "weights 2.0 GB + 4 rows of 8,192 tokens 2.0 GB + working" in panel
    assert "of 20.0 GB" in panel
    assert "8 rows of 8,192 tokens 4.0 GB" in ask(admin_page, small, max_rows=8)["panel"].replace(
        "\xa0", " "
    )


def test_more_rows_than_fit_must_be_meant(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    beat(redis_url, 6)
    (detail,) = errors_of(save(admin_page, small, max_rows=16)).values()
    assert "16 rows of 8,192 tokens need" in detail
    assert "at most 6 rows" in detail or "at most 7 rows" in detail
    asked = ask(admin_page, small, max_rows=16)
    assert asked["may_wait"] and set(asked["errors"]) == {"max_rows"}
    assert errors_of(save(admin_page, small, max_rows=16, may_wait="on")) == {}
    small.refresh_from_db()
    assert small.max_rows == 16
    # What does not touch the memory is not held up by it
    assert errors_of(save(admin_page, small, max_rows=16, default_top_p="0.9")) == {}


def test_what_can_never_fit_is_refused_however_it_is_meant(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    beat(redis_url, 3.2)
    errors = errors_of(save(admin_page, small, context_limit_tokens=32_768, may_wait="on"))
    assert "Not even one request of 32,768 tokens" in errors["context_limit_tokens"]
    assert "a context limit of at most" in errors["context_limit_tokens"]
    errors = errors_of(save(admin_page, small, memory_ceiling_gb="1.5", may_wait="on"))
    assert "The weights alone need" in errors["memory_ceiling_gb"]


def test_a_ceiling_of_the_model_and_pinned_models_count(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    other = wire.ModelMemory(name="o", weight_bytes=5 * GIB, room_bytes=0, is_pinned=True)
    beat(redis_url, 20, models=(other,))
    assert "of 15.0 GB" in ask(admin_page, small)["panel"].replace("\xa0", " ")
    panel = ask(admin_page, small, memory_share="0.5")["panel"].replace("\xa0", " ")
    assert "of 10.0 GB" in panel
    assert set(ask(admin_page, small, memory_ceiling_gb="3.9")["errors"]) == {"max_rows"}


def test_a_config_that_cannot_be_read_is_told_in_list_and_form(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    beat(redis_url, 20)
    (Path(small.path) / "config.json").write_text("{")
    for page in (MODELS, f"{MODELS}{small.pk}/change/"):
        text = admin_page.get(page).content.decode()
        assert "onfig.json cannot be read" in text and "Fetch the model again" in text
    assert "onfig.json cannot be read" in ask(admin_page, small)["panel"]
    assert errors_of(save(admin_page, small, default_top_p="0.9")) == {}


def test_the_list_says_how_each_model_stands(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    reason = "the weights need 9.0 GiB, the limit for weights here is 4.0 GiB"
    beat(redis_url, 20, wire.ModelStatus(name="small", state="failed", detail=reason))
    text = admin_page.get(MODELS).content.decode().replace("\xa0", " ")
    assert "The weights need 9.0 GiB" in text and "Choose a smaller model" in text
    assert "of 20.0 GB" in text and "0 of 4" in text and "while there is room" in text
    beat(redis_url, 20, wire.ModelStatus(name="small", state="loading", loaded_fraction=0.4))
    assert "loading 40%" in admin_page.get(MODELS).content.decode()
    HostedModel.objects.update(is_pinned=True)
    beat(redis_url, 20, wire.ModelStatus(name="small", state="loaded"))
    text = admin_page.get(MODELS).content.decode()
    assert "loaded" in text and "pinned" in text


def test_what_counts_at_the_next_load_asks_for_a_reload(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    beat(redis_url, 20, wire.ModelStatus(name="small", state="loaded"))
    url = f"{MODELS}{small.pk}/change/"
    assert "Reload now?" not in admin_page.post(url, FORM, follow=True).content.decode()
    text = admin_page.post(url, FORM | {"kv_bits": 8}, follow=True).content.decode()
    assert "Reload now?" in text and f"{MODELS}{small.pk}/reload" in text
    assert "Reload these models?" in admin_page.get(f"{MODELS}{small.pk}/reload/").content.decode()


def test_drafts_reach_the_engine_and_their_share_is_told(
    admin_page: Client, small: HostedModel, tmp_path: Path, redis_url: str
) -> None:
    draft = HostedModel.objects.create(name="draft", path=str(tmp_path / "draft"))
    assert errors_of(save(admin_page, small, draft_tokens=8, draft_model=draft.pk)) == {}
    specs = {one.name: one for one in published(redis_url).models}
    assert (specs["small"].draft_tokens, specs["small"].draft_path) == (8, draft.path)
    assert (specs["draft"].draft_tokens, specs["draft"].draft_path) == (0, None)
    seen = wire.ModelStatus(name="small", state="loaded", drafted_tokens=1200, accepted_tokens=900)
    beat(redis_url, 20, seen)
    url = f"{MODELS}{small.pk}/change/"
    assert "1,200 tokens, of which 75% were accepted" in admin_page.get(url).content.decode()
    text = admin_page.post(url, FORM | {"draft_tokens": 8}, follow=True).content.decode()
    assert "Reload now?" in text  # without the draft model


def test_what_cannot_draft_yet_or_for_nothing_does_not_reach_the_engine(
    admin_page: Client, small: HostedModel, tmp_path: Path
) -> None:
    fetching = HostedModel.State.FETCHING
    draft = HostedModel.objects.create(name="draft", path=str(tmp_path), state=fetching)
    errors = errors_of(save(admin_page, small, draft_model=draft.pk))
    assert "draft is not here yet" in errors["draft_model"]
    small.kind, small.draft_model = HostedModel.Kind.EMBED, draft
    assert spec_of(small).draft_path is None


@pytest.mark.parametrize("tokens", [["a", "b"], ["a", "c"]])
def test_a_draft_model_of_another_vocabulary_is_refused(
    admin_page: Client, small: HostedModel, tmp_path: Path, tokens: list[str]
) -> None:
    def write_tokenizer(folder: Path, tokens: list[str]) -> None:
        folder.mkdir(exist_ok=True)
        vocabulary = {token: number for number, token in enumerate(tokens)}
        tokenizer = {"model": {"vocab": vocabulary}, "added_tokens": []}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))

    draft = HostedModel.objects.create(name="draft", path=str(tmp_path / "draft"))
    write_tokenizer(tmp_path, ["a", "b"])
    write_tokenizer(tmp_path / "draft", tokens)
    errors = errors_of(save(admin_page, small, draft_model=draft.pk))
    if tokens == ["a", "b"]:
        assert errors == {}
    else:
        assert "draft has another vocabulary" in errors["draft_model"]


def test_a_page_that_was_opened_earlier_undoes_nobodys_change(
    admin_page: Client, small: HostedModel
) -> None:
    url = f"{MODELS}{small.pk}/change/"
    early, late = (admin_page.get(url).context["adminform"].form["seen"].initial for _ in "ab")
    assert errors_of(save(admin_page, small, seen=late, max_queue=7)) == {}
    assert "changed since this page was opened" in ask(admin_page, small, seen=early)["panel"]
    errors = errors_of(save(admin_page, small, seen=early, max_rows=2))
    assert "changed since this page was opened" in errors["__all__"]
    small.refresh_from_db()
    assert (small.max_rows, small.max_queue) == (4, 7)
    fresh = admin_page.get(url).context["adminform"].form["seen"].initial
    assert errors_of(save(admin_page, small, seen=fresh, max_queue=7, max_rows=2)) == {}


def test_a_change_is_recorded_with_before_and_after(admin_page: Client, small: HostedModel) -> None:
    save(admin_page, small, template_options='{"a": 1}', max_rows=3)
    record = AuditRecord.objects.get()
    assert (record.action, record.actor) == ("model.change", "root@example.org")
    assert json.loads(record.before)["max_rows"] == 4
    assert json.loads(record.after)["max_rows"] == 3
    assert json.loads(record.after)["template_options"] == {"a": 1}


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        ("load", {"in_memory": "no"}, {"asked": "load"}),
        ("unload", {"in_memory": "no"}, {"asked": "unload"}),
        ("reload", {"in_memory": "no"}, {"asked": "reload"}),
        ("unpin", {}, {"asked": "unpin"}),
        ("pin", {"is_pinned": False}, {"is_pinned": True}),
        ("set_default", {"is_default": False}, {"is_default": True}),
        ("clear_memory", {}, {"asked": "clear_memory"}),
        ("clear_disk", {}, {"asked": "clear_disk"}),
    ],
)
def test_every_action_asks_and_is_recorded_and_is_not_for_onlookers(
    admin_page: Client,
    onlooker: Client,
    small: HostedModel,
    action: str,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    form = {"action": action, "_selected_action": str(small.pk)}
    onlooker.post(MODELS, form | {"confirmed": "yes"})
    assert admin_page.post(MODELS, form).status_code == 200
    assert not AuditRecord.objects.exists()
    admin_page.post(MODELS, form | {"confirmed": "yes"})
    record = AuditRecord.objects.get()
    assert (record.action, record.target) == (f"model.{action}", "small")
    assert json.loads(record.before).items() >= before.items()
    assert json.loads(record.after).items() >= after.items()


def test_onlookers_see_the_settings_and_change_none(onlooker: Client, small: HostedModel) -> None:
    url = f"{MODELS}{small.pk}/"
    assert onlooker.get(MODELS).status_code == 200
    page = onlooker.get(f"{url}change/").content.decode()
    assert "weights" in page and "memory-panel" in page
    assert onlooker.post(f"{url}change/", FORM).status_code == 403
    assert onlooker.post(f"{url}estimate/", FORM).status_code == 403
    for action in ("load", "unload", "reload", "default"):
        assert onlooker.get(f"{url}{action}/").status_code in (302, 403), action
    assert onlooker.post("/admin/memory/limit/", {"engine": "engine-1"}).status_code == 403


def test_the_memory_limit_is_set_recorded_and_taken_back(
    admin_page: Client, small: HostedModel, redis_url: str
) -> None:
    beat(redis_url, 20)
    url = "/admin/memory/limit/"
    form = {"engine": "engine-1", "limit_gb": "12.5"}
    question = admin_page.post(url, form).content.decode()
    assert "Change the memory limit of engine-1 to 12.5 GB?" in question
    assert not MemoryLimit.objects.exists()
    assert admin_page.post(url, form | {"confirmed": "yes"}).status_code == 302
    assert published(redis_url).memory_limits == {"engine-1": int(12.5 * GIB)}
    assert MemoryLimit.objects.get().limit_bytes == int(12.5 * GIB)
    admin_page.post(url, {"engine": "engine-1", "limit_gb": "", "confirmed": "yes"})
    assert published(redis_url).memory_limits == {}
    told = [(json.loads(one.before), json.loads(one.after)) for one in AuditRecord.objects.all()]
    assert [after["limit_bytes"] for _, after in reversed(told)] == [int(12.5 * GIB), None]


@pytest.mark.parametrize("size", ["0", "-1", "nan", "inf", "much"])
def test_a_limit_that_is_none_changes_nothing(admin_page: Client, size: str) -> None:
    form = {"engine": "engine-1", "limit_gb": size}
    page = admin_page.post("/admin/memory/limit/", form, follow=True).content.decode()
    assert "was not changed" in page
    assert not MemoryLimit.objects.exists() and not AuditRecord.objects.exists()
