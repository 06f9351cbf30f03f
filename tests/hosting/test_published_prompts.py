"""Published prompts: asked for, noted, asked for again, withdrawn; and teams' prefixes."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from accounts.models import User
from engine import wire
from engine.transport.connection import connect
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order
from hosting.actions.publications import look_after_publications, publish, unpublish
from hosting.engine_client import get_client
from hosting.models import Generation, HostedModel, PublishedPrompt
from tests.hosting.hostile_requests import NOT_STORABLE
from tests.makers import make_finished, make_status

PROMPTS = "/admin/hosting/publishedprompt/"
PREAMBLE = "You are a careful agent.\n\n Be brief.\n"


@pytest.fixture
def admin_page(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    return browser


@pytest.fixture
def prompt(model: HostedModel) -> PublishedPrompt:
    prompt = PublishedPrompt(name="Agent", model=model, system_prompt=PREAMBLE)
    publish(prompt)
    return prompt


def submitted(redis_url: str) -> list[wire.Generate]:
    with connect(redis_url) as redis:
        entries = redis.xrange(wire.Keys.INTAKE)
    return [wire.decode(fields["m"]) for _, fields in entries]


def answer(redis_url: str, prompt: PublishedPrompt, *events: wire.Event) -> None:
    with connect(redis_url) as redis:
        for seq, event in enumerate(events):
            name = wire.Keys.events(str(prompt.request_id))
            redis.xadd(name, {"e": wire.encode(event)}, id=wire.entry_id(seq))


def beat(redis_url: str, started_at: float, *, state: str = "loaded") -> None:
    models = (wire.ModelStatus(name="demo", state=state),)
    status = make_status(started_at=started_at, models=models)
    with connect(redis_url) as redis:
        redis.sadd(wire.Keys.ENGINES, status.engine)
        redis.set(wire.Keys.engine(status.engine), wire.encode(status))


def test_publishing_asks_an_engine_to_compute_the_system_prompt(
    admin_page: Client, model: HostedModel, redis_url: str
) -> None:
    sent = PREAMBLE.replace("\n", "\r\n")  # as browsers do
    form = {"name": "Agent", "model": model.pk, "system_prompt": sent, "tools": "[]"}
    assert admin_page.post(f"{PROMPTS}add/", form).status_code == 302
    prompt = PublishedPrompt.objects.get()
    (command,) = submitted(redis_url)
    assert command.publication == prompt.publication
    assert command.messages == ({"role": "system", "content": PREAMBLE},)
    assert (command.max_tokens, command.priority) == (1, wire.Priority.BATCH)
    assert not Generation.objects.exists()


@pytest.mark.parametrize("tools", ['["x"]', *[f"[{text}]" for text in NOT_STORABLE]])
def test_tools_must_be_a_list_of_objects(
    admin_page: Client, model: HostedModel, tools: str
) -> None:
    form = {"name": "Agent", "model": model.pk, "system_prompt": PREAMBLE, "tools": tools}
    response = admin_page.post(f"{PROMPTS}add/", form)
    assert "tools" in response.context["adminform"].form.errors


def test_the_end_of_the_computing_is_noted(prompt: PublishedPrompt, redis_url: str) -> None:
    beat(redis_url, started_at=5.0)
    look_after_publications()
    prompt.refresh_from_db()
    assert prompt.state == "asked"
    answer(redis_url, prompt, make_finished(prompt_tokens=9))
    look_after_publications()
    prompt.refresh_from_db()
    assert (prompt.state, prompt.prompt_tokens) == ("published", 9)
    assert prompt.engine_started_at == 5.0


def test_a_refusal_is_noted_with_its_reason(prompt: PublishedPrompt, redis_url: str) -> None:
    detail = "This model has no chat template."
    answer(redis_url, prompt, wire.Refused(code=wire.Code.INVALID_VALUE, detail=detail))
    look_after_publications()
    prompt.refresh_from_db()
    assert (prompt.state, prompt.detail) == ("failed", detail)


@pytest.mark.parametrize(
    ("started_at", "state", "num_asked"),
    [(5.0, "loaded", 1), (6.0, "loaded", 2), (6.0, "loading", 1)],
)
def test_an_engine_that_began_anew_is_asked_once_the_model_is_loaded(
    prompt: PublishedPrompt, redis_url: str, started_at: float, state: str, num_asked: int
) -> None:
    beat(redis_url, started_at=5.0)
    answer(redis_url, prompt, make_finished())
    look_after_publications()
    beat(redis_url, started_at=started_at, state=state)
    for _ in range(3):
        look_after_publications()
    assert len(submitted(redis_url)) == num_asked


def test_what_got_lost_is_asked_for_again(prompt: PublishedPrompt, redis_url: str) -> None:
    PublishedPrompt.objects.update(asked_at=timezone.now() - datetime.timedelta(minutes=11))
    look_after_publications()
    look_after_publications()
    assert len(submitted(redis_url)) == 2


def test_what_is_published_cannot_be_changed(admin_page: Client, prompt: PublishedPrompt) -> None:
    admin_page.post(f"{PROMPTS}{prompt.pk}/change/", {"system_prompt": "Other"})
    prompt.refresh_from_db()
    assert prompt.system_prompt == PREAMBLE


@pytest.mark.parametrize("url", ["publishedprompt", "hostedmodel"])
def test_withdrawing_tells_the_engines(
    admin_page: Client, prompt: PublishedPrompt, redis_url: str, url: str
) -> None:
    publication = prompt.publication
    pk = prompt.pk if url == "publishedprompt" else prompt.model.pk
    admin_page.post(f"/admin/hosting/{url}/{pk}/delete/", {"post": "yes"})
    assert not PublishedPrompt.objects.exists()
    with connect(redis_url) as redis:
        notices = [wire.decode(fields["m"]) for _, fields in redis.xrange(wire.Keys.FORGET)]
    assert wire.Unpublish(publication=publication) in notices


@pytest.mark.parametrize(("mode", "is_shared"), [("team", True), ("shared", False), ("own", False)])
def test_in_team_mode_requests_name_the_persons_groups(
    person: User, model: HostedModel, redis_url: str, mode: str, is_shared: bool
) -> None:
    group = Group.objects.create(name="Research")
    person.groups.add(group)
    model.cache_sharing = mode
    order = Order(
        user=person, kind=Generation.Kind.CHAT, model=model,
        messages=({"role": "user", "content": "Hi"},),
    )  # fmt: skip
    start_generation(order)
    (command,) = submitted(redis_url)
    assert command.cache_teams == ((f"group:{group.pk}",) if is_shared else ())


def test_what_is_withdrawn_before_it_was_computed_never_is(
    prompt: PublishedPrompt, redis_url: str
) -> None:
    unpublish(prompt)
    ((_, end),) = get_client().read_events(str(prompt.request_id))
    assert isinstance(end, wire.Finished)
    assert end.reason is wire.FinishReason.CANCELLED


def test_members_may_not_publish(page: Client) -> None:
    answered: Any = page.get(PROMPTS, follow=True)
    assert answered.status_code == 403
