"""Quantised copies in the administration: asked for with their sizes, seen, cancelled."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.models import AuditRecord, User
from engine.sizing.quantising import Way
from hosting.actions.hosted_models import add_model
from hosting.actions.quantisations import ask_for_copy
from hosting.models import HostedModel, Quantisation
from tests.hosting.quantising_rig import data_folder as data_folder
from tests.hosting.quantising_rig import folder as folder
from tests.hosting.quantising_rig import model as model

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/hosting/quantisation/"
WAY = "4 bits, groups of 64"


@pytest.fixture
def page(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root@example.org"))
    return browser


def page_of(model: HostedModel) -> str:
    return f"/admin/hosting/hostedmodel/{model.pk}/quantise/"


def staff(*permissions: str) -> Client:
    person = User.objects.create_user("staff@example.org", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Client()
    browser.force_login(person)
    return browser


def test_each_way_is_offered_with_its_size(page: Client, model: HostedModel) -> None:
    change = page.get(f"/admin/hosting/hostedmodel/{model.pk}/change/").content.decode()
    assert page_of(model) in change
    html = page.get(page_of(model)).content.decode().replace("\xa0", " ")
    assert f'<option value="{WAY}" selected>{WAY}: 823.0 KB</option>' in html.replace("\n", "")
    assert "nvfp4, 4 bits, groups of 16: 7" in html
    assert "full takes 5.1 MB" in html and "must stay so" in html


def test_a_copy_is_asked_for_seen_and_cancelled(page: Client, model: HostedModel) -> None:
    answer = page.post(page_of(model), {"name": "small", "way": WAY}, follow=True)
    assert answer.redirect_chain == [(LIST, 302)]
    html = answer.content.decode()
    assert "small is asked for" in html and "of full" in html and WAY in html
    job = Quantisation.objects.get()
    Quantisation.objects.update(state="running", fraction=0.42)
    assert "running 42%" in page.get(LIST).content.decode()
    assert "small" in page.get(f"{LIST}{job.pk}/change/").content.decode()
    chosen = {"action": "cancel", "_selected_action": [job.pk]}
    assert "Cancel these copies?" in page.post(LIST, chosen).content.decode()
    assert (
        "Cancelled: 1."
        in page.post(LIST, chosen | {"confirmed": "y"}, follow=True).content.decode()
    )
    job.refresh_from_db()
    assert job.state == "cancelled"
    assert "They have all ended." in page.post(LIST, chosen, follow=True).content.decode()
    told = list(AuditRecord.objects.order_by("number").values_list("actor", "action"))
    assert told == [
        ("root@example.org", "model.quantise"),
        ("root@example.org", "model.quantise_cancel"),
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": "full", "way": WAY}, "There is a model of this name: full."),
        ({"name": "a b", "way": WAY}, "Enter a valid value."),
        ({"name": "", "way": WAY}, "This field is required."),
        ({"name": "x" * 101, "way": WAY}, "at most 100 characters"),
        ({"name": "small", "way": "7 bits"}, "Select a valid choice."),
        ({"name": "small"}, "This field is required."),
    ],
)
def test_what_is_wrong_is_told_beside_the_field(
    page: Client, model: HostedModel, fields: dict[str, str], told: str
) -> None:
    answer = page.post(page_of(model), fields)
    assert told in answer.content.decode()
    assert not Quantisation.objects.exists()


def test_too_little_disk_is_told(page: Client, model: HostedModel, settings: Any) -> None:
    settings.MIN_FREE_DISK_BYTES = 2**60
    html = page.post(page_of(model), {"name": "small", "way": WAY}).content.decode()
    assert "The disk has too little room" in html


def test_what_cannot_be_quantised_says_why(
    page: Client, model: HostedModel, tmp_path: Path
) -> None:
    folder = shutil.copytree(model.path, tmp_path / "half")
    (folder / "model.safetensors").write_bytes(b"")
    other = add_model(str(folder), name="half")
    answer = page.get(page_of(other), follow=True)
    assert "The files of half cannot be read: model.safetensors is no" in answer.content.decode()
    assert page.get(page_of(other).replace(str(other.pk), "99999")).status_code == 404


def test_it_needs_the_permission_to_add_models(model: HostedModel) -> None:
    browser = staff("change_hostedmodel", "view_hostedmodel", "view_quantisation")
    assert browser.get(page_of(model)).status_code == 403
    assert browser.post(page_of(model), {"name": "small", "way": WAY}).status_code == 403
    job = ask_for_copy(model, name="small", way=Way(), by=None)
    chosen = {"action": "cancel", "_selected_action": [job.pk], "confirmed": "yes"}
    browser.post(LIST, chosen)
    job.refresh_from_db()
    assert job.state == "waiting"


def test_who_may_add_models_but_sees_no_copies_stays_with_the_model(model: HostedModel) -> None:
    browser = staff("add_hostedmodel", "view_hostedmodel")
    answer = browser.post(page_of(model), {"name": "small", "way": WAY}, follow=True)
    assert answer.redirect_chain == [(f"/admin/hosting/hostedmodel/{model.pk}/change/", 302)]
    assert "small is asked for" in answer.content.decode()
    assert browser.get(LIST).status_code == 403
