"""Invitations: who may send which, and that a link lets one person in, once."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from accounts.invitations import (
    InvitationRefused,
    MayNotInvite,
    accept,
    accept_by_email,
    check_invitation,
    invite,
    withdraw,
)
from accounts.models import AuditRecord, Invitation, User
from tests.accounts.conftest import PASSWORD, signed_in

PEOPLE = "/accounts/people/"
ANSWERS = {
    "email": "new@example.org",
    "name": "New",
    "password1": PASSWORD,
    "password2": PASSWORD,
}


@pytest.fixture
def group(db: None) -> Group:
    return Group.objects.create(name="research")


@pytest.fixture
def manager(group: Group) -> User:
    user = User.objects.create_user("manager@example.org", PASSWORD, name="Manager")
    user.manages.add(group)
    return user


def link_in(html: str) -> str:
    found = re.search(r"http://testserver(/invitation/[^<]+/)", html)
    assert found
    return found[1]


def test_from_the_link_to_the_first_page(admin_page: Client, group: Group) -> None:
    form = {"email": "new@example.org", "role": "manager", "group": group.pk}
    created = admin_page.post(PEOPLE, form)
    assert created.status_code == 201
    link = link_in(created.content.decode())

    newcomer = Client()
    assert "new@example.org" in newcomer.get(link).content.decode()
    response = newcomer.post(link, ANSWERS)
    assert response["Location"] == "/"
    user = User.objects.get(email="new@example.org")
    assert list(user.groups.all()) == list(user.manages.all()) == [group]
    assert not user.is_staff
    assert newcomer.get("/accounts/keys/").status_code == 200
    actions = set(AuditRecord.objects.values_list("action", flat=True))
    assert {"invitation.create", "invitation.accept"} <= actions


def test_until_when_an_invitation_is_good_names_the_time_zone(
    admin_page: Client, group: Group
) -> None:
    form = {"email": "new@example.org", "role": "manager", "group": group.pk}
    created = admin_page.post(PEOPLE, form).content.decode()
    assert re.search(r"until \d+ \w+ \d{4}, \d\d:\d\d UTC\.", created)
    assert re.search(r"<td>\d+ \w+, \d\d:\d\d UTC</td>", admin_page.get(PEOPLE).content.decode())


def test_a_link_works_once(administrator: User) -> None:
    _, path = invite(administrator, role="member")
    token = path.split("/")[2]
    accept(token, email="one@example.org", name="", password=PASSWORD)
    with pytest.raises(InvitationRefused):
        accept(token, email="two@example.org", name="", password=PASSWORD)
    assert Client().get(path).status_code == 404


def test_who_takes_an_e_mail_at_the_same_moment_as_another_is_told_so(
    administrator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accept_second(token: str, **answers: Any) -> User:
        User.objects.create_user(answers["email"], PASSWORD, name="First")
        return accept(token, **answers)

    monkeypatch.setattr("accounts.views.people.accept", accept_second)
    _, link = invite(administrator, role="member")
    refused = Client().post(link, ANSWERS)
    assert "Somebody already uses this e-mail" in refused.content.decode()
    assert Invitation.objects.get().used_at is None
    assert [user.name for user in User.objects.filter(email=ANSWERS["email"])] == ["First"]


def test_a_link_ends_with_its_time_its_withdrawal_or_who_sent_it(
    administrator: User, admin_page: Client
) -> None:
    old, old_path = invite(administrator, role="member")
    Invitation.objects.filter(pk=old.pk).update(expires_at=timezone.now() - datetime.timedelta(1))
    withdrawn, withdrawn_path = invite(administrator, role="member")
    admin_page.post(f"/accounts/invitations/{withdrawn.pk}/withdraw/")
    other = User.objects.create_superuser("other@example.org")
    _, orphaned_path = invite(other, role="administrator")
    other.is_active = False
    other.save()
    for path in (old_path, withdrawn_path, orphaned_path, "/invitation/wrong/"):
        assert Client().post(path, ANSWERS).status_code == 404
    assert not User.objects.filter(email="new@example.org").exists()


def test_only_a_hash_of_the_link_is_kept(administrator: User) -> None:
    invitation, path = invite(administrator, role="member")
    assert path.split("/")[2] not in str(Invitation.objects.values().get(pk=invitation.pk))


def test_a_manager_invites_members_into_their_group_only(manager: User, group: Group) -> None:
    invite(manager, role="member", group=group)
    elsewhere = Group.objects.create(name="elsewhere")
    for role, where in (("member", elsewhere), ("member", None), ("administrator", group)):
        with pytest.raises(MayNotInvite):
            invite(manager, role=role, group=where)
    response = signed_in(manager).post(PEOPLE, {"role": "administrator", "group": group.pk})
    assert "Select a valid choice" in response.content.decode()


def test_a_manager_sees_the_people_of_their_groups_only(
    manager: User, group: Group, person: User, stranger: User
) -> None:
    person.groups.add(group)
    page = signed_in(manager).get(PEOPLE).content.decode()
    assert person.email in page
    assert stranger.email not in page


def test_members_may_not_invite(page: Client) -> None:
    assert page.get(PEOPLE).status_code == 403
    assert page.post(PEOPLE, {"role": "member"}).status_code == 403


def test_a_service_account_has_keys_and_no_sign_in(admin_page: Client, page: Client) -> None:
    admin_page.post("/accounts/people/service-accounts/", {"name": "Nightly report"})
    account = User.objects.get(is_service=True)
    keys = f"/accounts/service-accounts/{account.pk}/keys/"
    assert "sk-hearth-" in admin_page.post(keys, {"name": "cron"}).content.decode()
    assert account.api_keys.count() == 1
    assert not account.has_usable_password()
    assert page.get(keys).status_code == 404
    assert page.post("/accounts/people/service-accounts/", {"name": "x"}).status_code == 403


@pytest.mark.parametrize(
    ("role", "taken"), [("administrator", "is_superuser"), ("member", "manages")]
)
def test_a_link_gives_nothing_that_who_sent_it_may_no_longer_give(
    manager: User, group: Group, administrator: User, role: str, taken: str
) -> None:
    inviter = administrator if role == "administrator" else manager
    _, path = invite(inviter, role=role, group=group)
    if taken == "manages":
        inviter.manages.clear()
    else:
        User.objects.filter(pk=inviter.pk).update(is_superuser=False)
    assert Client().get(path).status_code == 404
    assert Client().post(path, ANSWERS).status_code == 404
    assert accept_by_email("new@example.org", name="New") is None
    assert not User.objects.filter(email="new@example.org").exists()


def test_a_link_that_is_withdrawn_while_it_is_accepted_lets_nobody_in(
    administrator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    invitation, path = invite(administrator, role="member")
    checked = check_invitation(path.split("/")[2])
    withdraw(invitation, by=administrator)
    monkeypatch.setattr("accounts.invitations.check_invitation", lambda token: checked)
    with pytest.raises(InvitationRefused):
        accept("stale", email="new@example.org", name="", password=PASSWORD)


def test_a_stale_page_is_told_that_the_link_was_used(
    administrator: User, admin_page: Client
) -> None:
    invitation, path = invite(administrator, role="member")
    accept(path.split("/")[2], email="new@example.org", name="", password=PASSWORD)
    address = f"/accounts/invitations/{invitation.pk}/withdraw/"
    html = admin_page.post(address, follow=True).content.decode()
    assert "was used already" in html and "is withdrawn" not in html


def test_where_an_e_mail_opens_an_account_nobody_takes_anothers(
    administrator: User, admin_page: Client, settings: Any
) -> None:
    """Who signs in by the provider later would become the person who was here first."""
    settings.OIDC_MAY_LINK_EMAIL = True
    response = admin_page.post(PEOPLE, {"role": "member"})
    assert "This field is required" in response.content.decode()
    _, path = invite(administrator, role="member", email="new@example.org")
    Client().post(path, ANSWERS | {"email": "boss@example.org"})
    assert User.objects.filter(email="new@example.org").exists()
    assert not User.objects.filter(email="boss@example.org").exists()


def test_without_groups_nobody_is_asked_for_one(admin_page: Client) -> None:
    form = admin_page.get(PEOPLE).context["form"]
    assert list(form.fields) == ["email", "role"]
    assert [role for role, _ in form.fields["role"].choices] == ["member", "administrator"]
    refused = admin_page.post(PEOPLE, {"role": "manager"})
    assert "role" in refused.context["form"].errors
    assert admin_page.post(PEOPLE, {"role": "member"}).status_code == 201
