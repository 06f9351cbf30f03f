"""Tools in conversations: which servers there are, and what the person says to each call."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, JsonResponse
from rest_framework import serializers

from hosting.actions import tool_rounds
from hosting.actions.tool_servers import servers_for
from hosting.chat import payloads
from hosting.chat.endpoint import endpoint, validated
from hosting.fields import Whole

_MAX_SERVERS = 100


class ToolServerIds(serializers.ListField):
    child = Whole(min_value=1, max_value=2**31 - 1)

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=_MAX_SERVERS, **options)


class Decision(serializers.Serializer[Any]):
    decision = serializers.ChoiceField(choices=tool_rounds.DECISIONS)


def _list(request: HttpRequest) -> JsonResponse:
    servers = [payloads.tool_server(row) for row in servers_for(request.user)]
    return JsonResponse({"servers": servers})


def _decide(request: HttpRequest, call_id: uuid.UUID) -> JsonResponse:
    call = tool_rounds.get_call(request.user, call_id)
    calls = tool_rounds.decide(call, validated(request, Decision)["decision"])
    return JsonResponse({"message": payloads.message(calls)})


def _stop(request: HttpRequest, message_id: uuid.UUID) -> JsonResponse:
    tool_rounds.stop_round(request.user, message_id)
    return JsonResponse({}, status=202)


def _go_on(request: HttpRequest, message_id: uuid.UUID) -> JsonResponse:
    answer = tool_rounds.go_on(request.user, message_id)
    return JsonResponse({"answer": payloads.message(answer)}, status=201)


server_list = endpoint(GET=_list)
decide = endpoint(POST=_decide)
stop = endpoint(POST=_stop)
go_on = endpoint(POST=_go_on)
