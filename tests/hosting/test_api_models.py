"""GET /v1/models, one model, the schema and its page."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import AsyncClient, Client

from accounts.models import User
from hosting.models import HostedModel

DEMO = {
    "id": "demo",
    "object": "model",
    "owned_by": "hearth",
    "kind": "generate",
    "input_modalities": ["text"],
    "context_length": 4096,
    "max_model_len": 4096,
}


async def test_ready_models_are_listed_with_their_context(
    api: AsyncClient, model: HostedModel
) -> None:
    await HostedModel.objects.acreate(name="off", is_enabled=False)
    await HostedModel.objects.acreate(name="coming", state=HostedModel.State.FETCHING)
    body = (await api.get("/v1/models")).json()
    assert body["object"] == "list"
    assert [{**one, "created": 0} for one in body["data"]] == [DEMO | {"created": 0}]


def test_a_model_of_several_groups_is_listed_once(person: User, model: HostedModel) -> None:
    groups = [Group.objects.create(name=name) for name in ("research", "everyone")]
    model.allowed_groups.set(groups)
    assert not HostedModel.objects.open_to(person).exists()
    for group in groups:
        person.groups.add(group)
        assert list(HostedModel.objects.open_to(person)) == [model]


async def test_one_model_is_found_by_its_name(api: AsyncClient, model: HostedModel) -> None:
    await HostedModel.objects.acreate(name="org/big")
    assert (await api.get("/v1/models/demo")).json()["id"] == "demo"
    assert (await api.get("/v1/models/org/big")).json()["id"] == "org/big"


@pytest.mark.parametrize("name", ["gone", "de%00mo", "%00"])
async def test_an_unknown_model_is_404(api: AsyncClient, model: HostedModel, name: str) -> None:
    response = await api.get(f"/v1/models/{name}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


@pytest.mark.django_db
def test_models_are_for_those_with_a_key() -> None:
    assert Client().get("/v1/models").status_code == 401


@pytest.mark.django_db
def test_the_schema_describes_the_api_and_nothing_else() -> None:
    schema = Client().get("/v1/openapi.json").json()
    assert {"/v1/chat/completions", "/v1/messages", "/v1/models"} <= set(schema["paths"])
    assert all(path.startswith("/v1/") for path in schema["paths"])
    answers = schema["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"]
    assert sorted(answers) == ["application/json", "text/event-stream"]


@pytest.mark.django_db
def test_the_schema_tells_nothing_of_the_code() -> None:
    paths = Client().get("/v1/openapi.json").json()["paths"]
    told = [one.get("description") for path in paths.values() for one in path.values()]
    assert len(told) > 10
    assert not any(told)


@pytest.mark.django_db
def test_the_schema_warns_of_the_tokens_of_other_models() -> None:
    shapes = Client().get("/v1/openapi.json").json()["components"]["schemas"]
    told = shapes["EmbeddingRequest"]["properties"]["input"]["description"]
    assert "check_embedding_ctx_length is False" in told


def test_the_schema_is_valid_without_a_warning(tmp_path: object) -> None:
    call_command("spectacular", validate=True, fail_on_warn=True, file=f"{tmp_path}/schema.yaml")


@pytest.mark.django_db
def test_the_docs_page_loads_from_this_server_only() -> None:
    response = Client().get("/v1/docs")
    assert response.status_code == 200
    assert "://" not in response.content.decode().replace("http://www.w3.org", "")
    assert "script-src 'self';" in response["Content-Security-Policy"]
