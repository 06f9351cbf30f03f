"""Which tools a conversation has: what an administrator allows and its person switches on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from cryptography.fernet import InvalidToken
from django.db import connection
from django.utils import timezone

from accounts.models import User
from accounts.sealed import open_sealed, seal
from hosting.actions.refusals import Refusal
from hosting.mcp.addresses import find_place
from hosting.mcp.client import Session
from hosting.mcp.errors import ToolServerError
from hosting.mcp.http import Exchange
from hosting.models import Conversation, HostedModel, ToolServer

MAX_OFFERED = 64  # tools of one conversation: each is in every prompt
LISTING_SECONDS = 15.0
GOODBYE_SECONDS = 2.0
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """`name` is what the model calls it: the tool's own where no other has it."""

    name: str
    server_id: int
    tool_name: str
    description: str
    input_schema: dict[str, Any]

    @property
    def as_openai(self) -> dict[str, Any]:
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.input_schema,
        }
        return {"type": "function", "function": function}


def servers_for(user: User) -> list[ToolServer]:
    """Those that have a tool for this person."""
    return [server for server in ToolServer.objects.open_to(user) if server.usable_tools]


def switch_servers(conversation: Conversation, server_ids: Sequence[int]) -> None:
    """Exactly these are on from now on; of what is switched off each call asks again. Raises
    Refusal."""
    open_ones = ToolServer.objects.open_to(conversation.owner).filter(pk__in=server_ids)
    if len(open_ones) != len(set(server_ids)):
        message = "One of these tool servers is not there for you any more."
        raise Refusal("invalid_value", message, field="tool_servers")
    conversation.tool_servers.set(open_ones)
    conversation.tool_consents.exclude(server__in=open_ones).delete()


def offered_tools(conversation: Conversation, model: HostedModel) -> list[Offered]:
    if not model.supports_tools:
        return []
    switched_on = ToolServer.objects.open_to(conversation.owner).filter(
        pk__in=conversation.tool_servers.values("pk")
    )
    return list(_named(switched_on))[:MAX_OFFERED]


def fault_of_use(
    server: ToolServer | None, tool_name: str, conversation: Conversation
) -> str | None:
    """Why this conversation may not call this tool now, in a sentence; None: it may."""
    owner = conversation.owner
    if not owner.is_active:
        return "The account is switched off."
    if server is None or not ToolServer.objects.open_to(owner).filter(pk=server.pk).exists():
        return "The tool server is not there for you any more."
    if not server.allows(tool_name):
        return f"The tool {tool_name} is not allowed any more."
    if not conversation.tool_servers.filter(pk=server.pk).exists():
        return f"{server.name} is switched off in this conversation."
    return None


def list_tools(server: ToolServer) -> int:
    """Ask the server what it has, and keep that. How many; raises ToolServerError.

    What was allowed stays allowed where its name is still there; nothing new is.
    """
    token = token_of(server)
    connection.close()  # not held while the server is asked
    place = find_place(server.url, may_be_private=server.may_be_private)
    with Exchange(place, seconds=LISTING_SECONDS) as exchange:
        session = Session(exchange, token=token)
        session.begin()
        listed = session.list_tools()
    with Exchange(place, seconds=GOODBYE_SECONDS) as exchange:
        session.end(exchange)
    ToolServer.objects.filter(pk=server.pk).update(
        listed_tools=[dataclasses.asdict(tool) for tool in listed], listed_at=timezone.now()
    )
    return len(listed)


def sealed_token(token: str) -> str:
    return seal(token) if token else ""


def token_of(server: ToolServer) -> str:
    """Raises ToolServerError."""
    if not server.sealed_token:
        return ""
    try:
        return open_sealed(server.sealed_token)
    except InvalidToken:
        raise ToolServerError(
            "The token of this tool server cannot be read any more: an administrator must enter "
            "it again."
        ) from None


def _named(servers: Iterable[ToolServer]) -> Iterable[Offered]:
    taken: set[str] = set()
    for server in servers:
        for tool in server.usable_tools:
            own = _UNFIT.sub("_", tool["name"])[:_MAX_NAME]
            long = f"{_UNFIT.sub('_', server.name)}_{own}"[:_MAX_NAME]
            name = next((one for one in (own, long) if one not in taken), None)
            if name is None:
                continue
            taken.add(name)
            yield Offered(
                name=name,
                server_id=server.pk,
                tool_name=tool["name"],
                description=tool["description"],
                input_schema=tool["input_schema"],
            )
