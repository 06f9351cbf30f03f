"""Downloads of models in the administration: how far each is seen, and cancelled."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.models import AuditRecord, User
from hosting.actions.hosted_models import add_model, cancel_fetch
from hosting.models import HostedModel, Quantisation
from tests.engine.transport.rig import Rig
from tests.hosting.quantising_rig import data_folder as data_folder
from tests.hosting.quantising_rig import tasks

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/hosting/hostedmodel/"
DELETED = "What is here of them is deleted."


@pytest.fixture
def page(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    return browser


@pytest.fixture
def model(rig: Rig) -> HostedModel:
    return add_model("org/tiny")


def own_page(model: HostedModel) -> str:
    return f"{LIST}{model.pk}/change/"


def cancel_page(model: HostedModel) -> str:
    return f"{LIST}{model.pk}/cancel/"


def chosen(model: HostedModel, **more: str) -> dict[str, Any]:
    return {"action": "cancel_fetch", "_selected_action": [model.pk], **more}


def text(answer: Any) -> str:
    return str(answer.content.decode())


def test_how_far_a_download_is_stands_in_the_list_and_on_its_page(
    page: Client, model: HostedModel
) -> None:
    HostedModel.objects.update(fetch_fraction=0.42)
    assert "fetching 42%" in text(page.get(LIST))
    html = text(page.get(own_page(model)))
    assert "Fetching 42%" in html
    assert "No estimate before its files are here." in html and "Fetch the model again" not in html


@pytest.mark.parametrize("path", [LIST, "/admin/hosting/quantisation/"])
def test_a_list_is_read_again_only_while_something_is_under_way(
    page: Client, rig: Rig, path: str
) -> None:
    assert "under_way_list.js" not in text(page.get(path))
    model = add_model("org/tiny")
    Quantisation.objects.create(name="a", estimated_bytes=1, bits=4, group_size=64)
    assert "under_way_list.js" in text(page.get(path))
    cancel_fetch(model, by=None)
    Quantisation.objects.update(state="done")
    assert "under_way_list.js" not in text(page.get(path))


def test_a_download_is_cancelled_from_the_list(page: Client, model: HostedModel, rig: Rig) -> None:
    question = text(page.post(LIST, chosen(model)))
    assert "Cancel these downloads?" in question and DELETED in question
    assert HostedModel.objects.get().state == "fetching"
    answer = text(page.post(LIST, chosen(model, confirmed="yes"), follow=True))
    assert "Cancelled: 1." in answer and "cancelled" in answer
    assert HostedModel.objects.get().state == "cancelled"
    assert tasks(rig) == ["hosting.tasks.look_at_fetches", "hosting.tasks.fetch_model"]
    record = AuditRecord.objects.get(action="model.fetch_cancel")
    assert (record.actor, record.target) == ("root@example.org", "tiny")
    assert "They have all ended." in text(page.post(LIST, chosen(model), follow=True))


def test_a_download_is_cancelled_from_its_page(page: Client, model: HostedModel) -> None:
    html = text(page.get(own_page(model)))
    assert cancel_page(model) in html and f"{LIST}{model.pk}/load/" not in html
    assert DELETED in text(page.get(cancel_page(model), follow=True))
    cancel_fetch(model, by=None)
    html = text(page.get(own_page(model)))
    assert "what was here of it deleted. Fetch it again to begin anew." in html
    assert cancel_page(model) not in html and f"{LIST}{model.pk}/fetch/" in html
    assert "They have all ended." in text(page.get(cancel_page(model), follow=True))


def test_what_was_cancelled_can_be_fetched_again(
    page: Client, model: HostedModel, rig: Rig
) -> None:
    cancel_fetch(model, by=None)
    again = {"action": "fetch_again", "_selected_action": [model.pk], "confirmed": "yes"}
    page.post(LIST, again)
    model.refresh_from_db()
    assert (model.state, model.detail) == ("fetching", "")
    assert tasks(rig)[0] == "hosting.tasks.fetch_model"


def test_a_cancelled_model_is_not_offered_in_the_chat(page: Client, model: HostedModel) -> None:
    cancel_fetch(model, by=None)
    assert page.get("/chat/models").json() == {"models": []}


def test_it_needs_the_permission_to_change_models(model: HostedModel) -> None:
    person = User.objects.create_user("staff@example.org", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename="view_hostedmodel"))
    browser = Client()
    browser.force_login(person)
    browser.post(LIST, chosen(model, confirmed="yes"))
    assert browser.get(cancel_page(model)).status_code == 403
    assert cancel_page(model) not in text(browser.get(own_page(model)))
    assert HostedModel.objects.get().state == "fetching"
