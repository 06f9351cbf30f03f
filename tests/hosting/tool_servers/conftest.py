"""A running tool server, its row, and a conversation that has it switched on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from hosting.actions.tool_servers import list_tools, sealed_token
from hosting.models import HostedModel, ToolServer
from tests.engine.transport.rig import Rig
from tests.hosting.tool_servers.tools_in_chat import ToolChat
from tests.tool_server import RunningServer, running_tool_server

ALL = ["add", "fail", "hang", "huge", "hostile"]


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_tool_server(tmp_path_factory.mktemp("tools")) as one:
        yield one


@pytest.fixture
def server(transactional_db: None, running: RunningServer) -> ToolServer:
    made = ToolServer.objects.create(
        name="Tests",
        url=running.url,
        may_be_private=True,
        is_enabled=True,
        is_for_everybody=True,
        allowed_tools=ALL,
        sealed_token=sealed_token("secret-token"),
    )
    list_tools(made)
    made.refresh_from_db()
    return made


@pytest.fixture
def chat(page: Client, rig: Rig, model: HostedModel, server: ToolServer) -> ToolChat:
    HostedModel.objects.filter(pk=model.pk).update(supports_tools=True)
    return ToolChat(page, rig, server)
