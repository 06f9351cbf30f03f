"""`manage.py add_model`, the demo model, and what engines are told."""

from __future__ import annotations

import fcntl
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import User
from engine import wire
from hosting.actions.hosted_models import (
    add_model,
    ensure_demo_model,
    mark_fetched,
    remove_model,
)
from hosting.actions.model_folder import NotAModelFolder, describe_folder
from hosting.models import HostedModel
from hosting.supervisor.prepare import prepare
from hosting.tasks import look_at_fetches
from tests.engine.transport.rig import Rig
from tests.tiny_models import SEEING, tiny_model_path

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "Tiny Model"
    made.mkdir()
    (made / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
    (made / "model.safetensors").write_bytes(b"x" * 100)
    (made / "chat_template.jinja").write_text("{% if tools %}{% endif %}<think>")
    (made / "generation_config.json").write_text(json.dumps({"temperature": 0.6, "top_k": 20}))
    return made


def run(*arguments: str) -> str:
    output = io.StringIO()
    call_command("add_model", *arguments, stdout=output)
    return output.getvalue()


def published(rig: Rig) -> list[str]:
    return [spec.name for spec in wire.decode(rig.redis.get(wire.Keys.MODELS)).models]


def test_what_macos_lays_beside_a_file_is_none_of_the_weights(folder: Path) -> None:
    (folder / "._model.safetensors").write_bytes(b"a" * 4096)
    assert describe_folder(folder).weight_bytes == 100
    (folder / "model.safetensors").unlink()
    with pytest.raises(NotAModelFolder, match="safetensors weights"):
        describe_folder(folder)


def test_a_folder_is_registered_with_what_it_says(rig: Rig, folder: Path) -> None:
    assert "tiny-model: registered" in run(str(folder))
    model = HostedModel.objects.get()
    assert (model.name, model.path) == ("tiny-model", str(folder))
    assert (model.context_limit_tokens, model.weight_bytes) == (512, 100)
    assert model.supports_thinking
    assert model.supports_tools
    assert (model.default_temperature, model.default_top_k) == (0.6, 20)
    assert published(rig) == ["tiny-model"]


def test_a_model_that_sees_is_known_by_its_folder(rig: Rig) -> None:
    run(str(tiny_model_path(SEEING)), "--name", "seer")
    run(str(tiny_model_path("tiny-gemma3")), "--name", "reader")
    sees = dict(HostedModel.objects.values_list("name", "supports_images"))
    assert sees == {"seer": True, "reader": False}


@pytest.mark.parametrize(
    ("template", "thinks"),
    [("{{ enable_thinking }}", True), ("{{ '<|channel|>analysis' }}", True), ("Hello", False)],
)
def test_a_template_tells_whether_the_model_thinks(
    rig: Rig, folder: Path, template: str, thinks: bool
) -> None:
    (folder / "chat_template.jinja").write_text(template)
    run(str(folder))
    assert HostedModel.objects.get().supports_thinking is thinks


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b'{"architectures": {"0": 1}, "max_position_embeddings": 1e30}'),
        ("config.json", b'{"architectures": 5, "max_position_embeddings": 99999999999999999999}'),
        ("chat_template.jinja", b"\xff\xfe"),
        ("generation_config.json", b'{"temperature": NaN, "top_k": 1e999, "top_p": true}'),
        ("generation_config.json", b"[" * 100_000),
    ],
)
def test_a_strange_file_is_no_reason_to_fail(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    assert "tiny-model: registered" in run(str(folder))


def test_a_config_that_is_too_deep_is_refused(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"[" * 100_000)
    with pytest.raises(CommandError, match=r"no readable config\.json"):
        run(str(folder))


def test_a_name_can_be_chosen_and_used_again(folder: Path) -> None:
    run(str(folder), "--name", "one")
    run(str(folder), "--name", "one", "--default")
    assert HostedModel.objects.get().is_default


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("Qwen3ForCausalLM", "generate"),
        ("GPT2LMHeadModel", "generate"),
        ("BertModel", "embed"),
        ("XLMRobertaModel", "embed"),
        ("ModernBertForMaskedLM", "embed"),
        ("XLMRobertaForSequenceClassification", "rerank"),
    ],
)
def test_what_stands_on_the_body_says_what_a_model_makes(
    rig: Rig, folder: Path, architecture: str, kind: str
) -> None:
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    run(str(folder))
    assert HostedModel.objects.get().kind == kind


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_folder_without_a_model_is_refused(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(CommandError, match=missing.split(".")[1]):
        run(str(folder))
    assert not HostedModel.objects.exists()


@pytest.mark.parametrize("source", ["~nobody-of-this-name/x", "/" + "a" * 300])
def test_what_cannot_be_looked_at_is_refused(source: str) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        run(source)


@pytest.mark.parametrize("source", ["/nowhere/at/all", "nowhere"])
def test_what_is_no_folder_is_refused(source: str) -> None:
    with pytest.raises(CommandError, match="is not a folder"):
        run(source)


@pytest.mark.parametrize("name", ["a b", "../up", "-x", "x\n"])
def test_a_bad_name_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(CommandError):
        run(str(folder), f"--name={name}")


def test_a_hugging_face_id_is_fetched_by_celery(rig: Rig) -> None:
    assert "being fetched" in run("org/Tiny-4bit")
    model = HostedModel.objects.get()
    assert (model.name, model.state) == ("tiny-4bit", "fetching")
    (message,) = rig.redis.lrange("hearth-celery:celery", 0, -1)
    assert json.loads(message)["headers"]["task"] == "hosting.tasks.fetch_model"
    assert published(rig) == []


def test_a_fetched_model_is_served_from_where_the_data_folder_is_now(
    rig: Rig, folder: Path, settings: Any, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    settings.MODELS_DIR = old
    run("org/tiny")
    folder.rename(old / "org--tiny.part")
    mark_fetched(HostedModel.objects.get())
    settings.MODELS_DIR = old.rename(new)
    run(str(shutil.copytree(new / "org--tiny", tmp_path / "mine")))
    prepare(tmp_path)
    paths = {spec.name: spec.path for spec in wire.decode(rig.redis.get(wire.Keys.MODELS)).models}
    assert paths["tiny"] == str(new / "org--tiny")
    assert paths["mine"] == str(tmp_path / "mine")


def test_a_fetch_that_nobody_began_is_begun_and_one_under_way_goes_on(
    rig: Rig, settings: Any, tmp_path: Path
) -> None:
    settings.MODELS_DIR = tmp_path
    run("org/tiny")
    rig.redis.delete("hearth-celery:celery")
    with (tmp_path / "org--tiny.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        look_at_fetches()
        assert rig.redis.llen("hearth-celery:celery") == 0
    look_at_fetches()
    (message,) = rig.redis.lrange("hearth-celery:celery", 0, -1)
    assert json.loads(message)["headers"]["task"] == "hosting.tasks.fetch_model"


def test_a_removed_model_is_served_no_more(rig: Rig, folder: Path) -> None:
    model = add_model(str(folder), name="one")
    remove_model(model)
    assert published(rig) == []
    (told,) = rig.redis.xrange(wire.Keys.FORGET)
    assert wire.decode(told[1]["m"]) == wire.ClearCache(model="one")


def test_the_demo_model_is_the_first_default(rig: Rig, folder: Path, settings: Any) -> None:
    settings.DEMO_MODEL_DIR = folder
    ensure_demo_model()
    ensure_demo_model()
    model = HostedModel.objects.get()
    assert (model.name, model.is_default) == ("hearth-demo", True)


def test_the_demo_model_joins_no_other(folder: Path, settings: Any) -> None:
    add_model(str(folder), name="mine")
    settings.DEMO_MODEL_DIR = folder
    ensure_demo_model()
    assert HostedModel.objects.get().name == "mine"


def test_a_deleted_demo_model_stays_away(rig: Rig, folder: Path, settings: Any) -> None:
    settings.DEMO_MODEL_DIR = folder
    model = ensure_demo_model()
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    browser.post(f"/admin/hosting/hostedmodel/{model.pk}/delete/", {"post": "yes"})
    assert not HostedModel.objects.exists()
    ensure_demo_model()
    assert not HostedModel.objects.exists()


def test_without_the_demo_model_all_else_works(settings: Any, tmp_path: Path) -> None:
    settings.DEMO_MODEL_DIR = tmp_path / "absent"
    assert ensure_demo_model() is None
