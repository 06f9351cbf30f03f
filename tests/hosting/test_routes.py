"""Every address and every socket, asked by everybody: nobody gets what is not theirs.

A new address fails here until it says in WHO_MAY who it is for.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import URLPattern, get_resolver

from accounts.invitations import create_service_account, invite
from accounts.keys import create_api_key
from accounts.models import ApiKey, Quota, User
from hosting import asgi
from hosting.actions.files import store_file
from hosting.actions.images import store_image
from hosting.models import Batch, Conversation, Generation, HostedModel, Message, ToolCall
from tests.accounts.factors import add_app, add_codes, add_passkey, just_confirmed
from tests.hosting.scripted_engine import ScriptedEngine
from tests.pictures import PNG


class Who(Enum):
    EVERYBODY = auto()
    SIGNED_IN = auto()
    OWNER = auto()  # of the object that the address names
    MANAGER = auto()
    ADMINISTRATOR = auto()
    KEY = auto()  # a script
    LINK = auto()  # who holds the link


WHO_MAY = {
    "healthz": Who.EVERYBODY,
    "readyz": Who.EVERYBODY,
    "metrics": Who.EVERYBODY,
    "api/hello": Who.EVERYBODY,
    "v1/openapi.json": Who.EVERYBODY,
    "v1/docs": Who.EVERYBODY,
    "v1/": Who.EVERYBODY,  # says in JSON that there is nothing
    "accounts/sign-in/": Who.EVERYBODY,
    "accounts/sign-in/passkey/": Who.EVERYBODY,
    "accounts/second-factor/": Who.EVERYBODY,  # without a password before it, back to the sign-in
    "accounts/sign-out/": Who.EVERYBODY,
    "accounts/oidc/": Who.EVERYBODY,
    "accounts/oidc/callback/": Who.EVERYBODY,
    "setup/<str:token>/": Who.LINK,
    "invitation/<str:token>/": Who.LINK,
    "v1/chat/completions": Who.KEY,
    "v1/completions": Who.KEY,
    "v1/responses": Who.KEY,
    "v1/responses/input_tokens": Who.KEY,
    "v1/messages": Who.KEY,
    "v1/messages/count_tokens": Who.KEY,
    "v1/messages/batches": Who.KEY,
    "v1/messages/batches/<str:batch_id>": Who.KEY,
    "v1/messages/batches/<str:batch_id>/cancel": Who.KEY,
    "v1/messages/batches/<str:batch_id>/results": Who.KEY,
    "v1/embeddings": Who.KEY,
    "v1/rerank": Who.KEY,
    "v2/rerank": Who.KEY,
    "rerank": Who.KEY,
    "v1/admin/usage": Who.KEY,
    "v1/admin/live": Who.KEY,
    "v1/batches": Who.KEY,
    "v1/batches/<str:batch_id>": Who.KEY,
    "v1/batches/<str:batch_id>/cancel": Who.KEY,
    "v1/files": Who.KEY,
    "v1/files/<str:file_id>": Who.KEY,
    "v1/files/<str:file_id>/content": Who.KEY,
    "v1/models": Who.KEY,
    "v1/models/<path:name>": Who.KEY,
    "": Who.SIGNED_IN,
    "batches/": Who.SIGNED_IN,
    "batches/<str:batch_id>/cancel/": Who.OWNER,
    "batches/files/<str:file_id>": Who.OWNER,
    "tools/": Who.SIGNED_IN,
    "usage/": Who.SIGNED_IN,
    "usage/csv": Who.SIGNED_IN,
    "limits/": Who.SIGNED_IN,
    "limits/keys/<int:key_id>/": Who.OWNER,
    "limits/people/<int:user_id>/": Who.ADMINISTRATOR,
    "accounts/password/": Who.SIGNED_IN,
    "accounts/confirm/": Who.SIGNED_IN,
    "accounts/confirm/code/": Who.SIGNED_IN,
    "accounts/confirm/passkey/": Who.SIGNED_IN,
    "accounts/security/": Who.SIGNED_IN,
    "accounts/security/app/": Who.SIGNED_IN,
    "accounts/security/app/remove/": Who.OWNER,
    "accounts/security/passkey/": Who.SIGNED_IN,
    "accounts/security/codes/": Who.OWNER,
    "accounts/security/codes/new/": Who.SIGNED_IN,
    "accounts/oidc/disconnect/": Who.SIGNED_IN,
    "accounts/keys/": Who.SIGNED_IN,
    "accounts/data/": Who.SIGNED_IN,
    "accounts/data/export": Who.SIGNED_IN,
    "accounts/data/forget": Who.SIGNED_IN,
    "accounts/data/keep": Who.SIGNED_IN,
    "accounts/sign-out/elsewhere/": Who.SIGNED_IN,
    "chat/conversations": Who.SIGNED_IN,
    "chat/messages": Who.SIGNED_IN,
    "chat/images": Who.SIGNED_IN,
    "chat/images/<uuid:image_id>": Who.OWNER,
    "chat/models": Who.SIGNED_IN,
    "chat/tool-servers": Who.SIGNED_IN,
    "c/<uuid:conversation_id>": Who.OWNER,
    "chat/conversations/<uuid:conversation_id>": Who.OWNER,
    "chat/conversations/<uuid:conversation_id>/export": Who.OWNER,
    "chat/messages/<uuid:message_id>/regenerate": Who.OWNER,
    "chat/generations/<uuid:generation_id>/cancel": Who.OWNER,
    "chat/messages/<uuid:message_id>/stop": Who.OWNER,
    "chat/messages/<uuid:message_id>/go-on": Who.OWNER,
    "chat/tool-calls/<uuid:call_id>/decide": Who.OWNER,
    "accounts/keys/<int:key_id>/revoke/": Who.OWNER,
    "accounts/keys/<int:key_id>/rotate/": Who.OWNER,
    "accounts/security/passkey/<int:pk>/remove/": Who.OWNER,
    "accounts/people/": Who.MANAGER,
    "usage/team/": Who.MANAGER,
    "usage/team/csv": Who.MANAGER,
    "accounts/people/service-accounts/": Who.ADMINISTRATOR,
    "accounts/invitations/<int:invitation_id>/withdraw/": Who.ADMINISTRATOR,
    "accounts/service-accounts/<int:user_id>/keys/": Who.ADMINISTRATOR,
}
SOCKETS = {"ws/chat": Who.SIGNED_IN, "ws/admin": Who.ADMINISTRATOR}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# They change nothing, whoever asks
PUBLIC_API = {"v1/openapi.json", "v1/docs", "v1/"}
# The page of the chat tells nothing: what it shows, it asks for
SAYS_NOTHING = {"c/<uuid:conversation_id>"}
# Which of these opens, and which leads to another, depends on what the person has to show
DEPENDS = {
    "accounts/confirm/",
    "accounts/confirm/code/",
    "accounts/confirm/passkey/",
    "accounts/security/app/",
}


def all_routes(patterns: list[Any], before: str = "") -> Iterator[str]:
    for one in patterns:
        route = before + str(one.pattern)
        if isinstance(one, URLPattern):
            yield route
        else:
            yield from all_routes(one.url_patterns, route)


ROUTES = sorted(set(all_routes(get_resolver().url_patterns)))
ADMIN_ROUTES = [route for route in ROUTES if route.startswith("admin/")]
OTHER_ROUTES = [route for route in ROUTES if not route.startswith("admin/")]


def test_every_address_says_who_it_is_for() -> None:
    assert set(OTHER_ROUTES) <= WHO_MAY.keys()


def test_every_socket_says_who_it_is_for() -> None:
    assert {str(one.pattern) for one in asgi._sockets.routes} == SOCKETS.keys()


@pytest.fixture
def named(person: User, model: HostedModel) -> dict[str, Any]:
    """One object of each kind that an address can name. All are Ada's."""
    conversation = Conversation.objects.create(owner=person, title="Ada's secret")
    message = Message.objects.create(conversation=conversation, role="user", content="secret")
    generation = Generation.objects.create(
        user=person, kind="chat", model_name="demo", tenant="t", priority="api", state="done"
    )
    file = store_file(person, [b"{}"], filename="Ada's secret", num_bytes=2)
    key = create_api_key(user=person, name="batches")[0]
    batch = Batch.objects.create(user=person, api_key=key, endpoint="/v1", input_file=file.pk)
    held = Message.objects.create(conversation=conversation, parent=message, role="tool")
    call = ToolCall.objects.create(message=held, number=0, result="Ada's secret")
    root = User.objects.create_superuser("root@example.org")
    add_app(person)
    add_codes(person)
    passkey = add_passkey(person, "Ada's secret key")
    return {
        "conversation_id": conversation.pk,
        "message_id": message.pk,
        "generation_id": generation.pk,
        "call_id": call.pk,
        "image_id": store_image(person, PNG).pk,
        "key_id": create_api_key(user=person, name="laptop")[0].pk,
        "invitation_id": invite(root, role="member")[0].pk,
        "user_id": create_service_account("cron", by=root).pk,
        "object_id": person.pk,
        "id": person.pk,
        "content_type_id": 1,
        "pk": passkey.pk,
        "model_id": model.pk,
        "name": model.name,
        "token": "wrong",
        "file_id": file.public_id,
        "batch_id": batch.public_id,
        "instrument": "live",
        "url": "no/such/page",
        "app_label": "accounts",
    }


def address(route: str, named: dict[str, Any]) -> str:
    """The route with a value for each of its parts, whichever way it spells them."""
    part = re.compile(r"\(\?P<(\w+)>[^)]*\)|<(?:\w+:)?(\w+)>")
    filled = part.sub(lambda found: str(named[found[1] or found[2]]), route)
    return "/" + filled.replace("^", "").replace("$", "")


def browser_of(user: User | None) -> Client:
    """Whose it is has just confirmed so, as the security pages want it."""
    browser = Client(raise_request_exception=False)
    if user is not None:
        browser.force_login(user)
        just_confirmed(browser, user)
    return browser


@pytest.fixture
def callers(person: User, stranger: User, named: dict[str, Any]) -> dict[str, Client]:
    elsewhere = Group.objects.create(name="elsewhere")
    stranger.groups.add(elsewhere)
    member = User.objects.create_user("member@example.org")
    manager = User.objects.create_user("manager@example.org")
    manager.manages.add(elsewhere)
    return {
        "anonymous": browser_of(None),
        "other person": browser_of(member),
        "other group": browser_of(stranger),
        "manager": browser_of(manager),
        "administrator": browser_of(User.objects.get(email="root@example.org")),
        "owner": browser_of(person),
    }


ALLOWED = {
    Who.SIGNED_IN: {"other person", "other group", "manager", "administrator", "owner"},
    Who.OWNER: {"owner"},
    Who.MANAGER: {"manager", "administrator"},
    Who.ADMINISTRATOR: {"administrator"},
    Who.KEY: set[str](),
    Who.LINK: set[str](),
}


def test_no_browser_gets_what_is_not_its_own(
    callers: dict[str, Client], named: dict[str, Any]
) -> None:
    faults = []
    for route, who in WHO_MAY.items():
        if who == Who.EVERYBODY or route not in OTHER_ROUTES or route in SAYS_NOTHING:
            continue
        for caller, browser in callers.items():
            if caller in ALLOWED[who]:
                continue
            for method in METHODS:
                response = browser.generic(method, address(route, named))
                if not 300 <= response.status_code < 500:
                    faults.append(f"{caller}: {method} {route} gave {response.status_code}")
    assert not faults, "\n".join(faults)


def test_who_may_is_let_in(callers: dict[str, Client], named: dict[str, Any]) -> None:
    faults = []
    for route, who in WHO_MAY.items():
        if route not in OTHER_ROUTES or who in (Who.EVERYBODY, Who.KEY, Who.LINK):
            continue
        for caller in ALLOWED[who]:
            status = callers[caller].get(address(route, named)).status_code
            allowed = (200, 302, 403) if route in DEPENDS else (200, 405)
            if status not in allowed:  # 405: there is only a POST
                faults.append(f"{caller}: {route} gave {status}")
    assert not faults, "\n".join(faults)


def test_nothing_is_changed_for_a_page_of_another_site(person: User, named: dict[str, Any]) -> None:
    """A form there can be posted here with the person's cookie, but not with our token."""
    root = User.objects.get(email="root@example.org")
    own = [route for route in OTHER_ROUTES if WHO_MAY.get(route) != Who.KEY]
    faults = []
    for user, routes in ((person, set(own) - PUBLIC_API), (root, ADMIN_ROUTES)):
        browser = Client(enforce_csrf_checks=True, raise_request_exception=False)
        browser.force_login(user)
        for route in routes:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                status = browser.generic(method, address(route, named)).status_code
                if status != 403:
                    faults.append(f"{method} {route} gave {status}")
    assert not faults, "\n".join(sorted(faults))


def test_the_administration_is_the_administrators(
    callers: dict[str, Client], named: dict[str, Any]
) -> None:
    faults = []
    for route in ADMIN_ROUTES:
        for caller in callers.keys() - {"administrator"}:
            for method in ("GET", "POST"):
                status = callers[caller].generic(method, address(route, named)).status_code
                if not 300 <= status < 500:
                    faults.append(f"{caller}: {method} {route} gave {status}")
    assert not faults, "\n".join(faults)


def test_nobody_reads_conversations_in_the_administration(
    callers: dict[str, Client], named: dict[str, Any]
) -> None:
    for route in ADMIN_ROUTES:
        text = callers["administrator"].get(address(route, named)).content
        assert b"Ada's secret" not in text and b"Ada&#x27;s secret" not in text, route


def test_no_script_gets_in_without_a_key_for_it(
    person: User, stranger: User, named: dict[str, Any], engine: ScriptedEngine
) -> None:
    _, limited = create_api_key(user=person, name="limited", scopes=["vectors"])
    key, unmodelled = create_api_key(user=person, name="other models")
    Quota.objects.create(api_key=key, allowed_models=["another"])
    ended, revoked = create_api_key(user=stranger, name="revoked")
    ApiKey.objects.filter(pk=ended.pk).update(revoked_at=ended.created_at)
    body = {"model": "demo", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    given = {"model": "demo", "input": "x"}
    other_body = {"v1/responses": given, "v1/responses/input_tokens": given}
    other_body["v1/chat/completions"] = body
    body = body | {"prompt": "x", "input": "x", "query": "x", "documents": ["x"]}
    refused = {"": 401, "sk-hearth-wrong": 401, revoked: 401, limited: 403, unmodelled: 403}
    faults = []
    for route, who in WHO_MAY.items():
        if who != Who.KEY or route not in OTHER_ROUTES or "models" in route or "admin" in route:
            continue
        for secret, status in refused.items():
            if secret == limited and ("embed" in route or "rerank" in route):
                continue
            # They name no model: what a batch may, is asked when it is made and of each line
            if secret in (limited, unmodelled) and ("/files" in route or "/batches" in route):
                continue
            headers = {"authorization": f"Bearer {secret}"} if secret else {}
            url = address(route, named)
            sent = other_body.get(route, body)
            response = Client().post(url, sent, content_type="application/json", headers=headers)
            if response.status_code != status:
                faults.append(f"{route} with {secret[:14]!r} gave {response.status_code}")
    assert not faults, "\n".join(faults)
    assert Generation.objects.count() == 1


async def opens(route: str, browser: Client) -> bool:
    """Whether the socket stays open for that browser once it has asked for something."""
    cookie = browser.cookies.get(settings.SESSION_COOKIE_NAME)
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    headers += [(b"cookie", f"{cookie.key}={cookie.value}".encode())] if cookie else []
    socket = WebsocketCommunicator(asgi.application, f"/{route}", headers=headers)
    if not (await socket.connect())[0]:
        return False
    await socket.send_json_to({"type": "watch", "instrument": "live"})
    answer = await socket.receive_output(timeout=10)
    await socket.disconnect()
    return answer["type"] != "websocket.close"


@pytest.mark.parametrize("route", SOCKETS)
async def test_sockets_open_for_whom_they_are_alone(
    callers: dict[str, Client], engine: ScriptedEngine, route: str
) -> None:
    opened = {caller for caller, browser in callers.items() if await opens(route, browser)}
    assert opened == ALLOWED[SOCKETS[route]]


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:81", "null", ""])
async def test_no_socket_opens_for_another_site(transactional_db: None, origin: str) -> None:
    for route in SOCKETS:
        headers = [(b"host", b"localhost"), (b"origin", origin.encode())]
        socket = WebsocketCommunicator(asgi.application, f"/{route}", headers=headers)
        assert (await socket.connect())[0] is False


def test_an_unknown_object_looks_like_somebody_elses(callers: dict[str, Client]) -> None:
    url = f"/chat/conversations/{uuid.uuid4()}"
    assert callers["other person"].get(url).status_code == 404
