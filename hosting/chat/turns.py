"""Messages sent, answers regenerated, generations stopped."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, JsonResponse
from rest_framework import serializers

from accounts.auth import client_name
from hosting.actions import conversations as conversation_actions
from hosting.actions import turns as actions
from hosting.actions.generations import cancel_generation
from hosting.actions.orders import SamplingChoice
from hosting.actions.refusals import Refusal
from hosting.chat import payloads
from hosting.chat.endpoint import endpoint, validated
from hosting.chat.tool_calls import ToolServerIds
from hosting.fields import Flag, Number, Text, Whole

MAX_MESSAGE_CHARACTERS = 2_000_000


class Options(serializers.Serializer[Any]):
    temperature = Number(required=False, allow_null=True, min_value=0, max_value=2)
    top_p = Number(required=False, allow_null=True, min_value=0.001, max_value=1)
    top_k = Whole(required=False, allow_null=True, min_value=0, max_value=1_000_000)
    max_tokens = Whole(required=False, allow_null=True, min_value=1, max_value=10_000_000)
    seed = Whole(required=False, allow_null=True, min_value=0, max_value=2**53 - 1)
    enable_thinking = Flag(required=False, allow_null=True)


class NewMessage(serializers.Serializer[Any]):
    id = serializers.UUIDField(required=False, allow_null=True)
    conversation = serializers.UUIDField(required=False, allow_null=True)
    parent = serializers.UUIDField(required=False, allow_null=True)
    content = Text(max_length=MAX_MESSAGE_CHARACTERS, allow_blank=True)
    images = serializers.ListField(child=serializers.UUIDField(), required=False, max_length=100)
    model = Text(required=False, allow_null=True, allow_blank=True)
    options = Options(required=False, allow_null=True)
    system_prompt = Text(required=False, allow_null=True, allow_blank=True, max_length=100_000)
    tool_servers = ToolServerIds(required=False)


class Regeneration(serializers.Serializer[Any]):
    model = Text(required=False, allow_null=True, allow_blank=True)
    options = Options(required=False, allow_null=True)


def _send(request: HttpRequest) -> JsonResponse:
    data = validated(request, NewMessage)
    new = actions.NewTurn(
        id=data.get("id"),
        content=_said(data),
        images=tuple(data.get("images", ())),
        conversation=data.get("conversation"),
        parent=data.get("parent"),
        model=data.get("model") or "",
        system_prompt=data.get("system_prompt"),
        tool_servers=tuple(data.get("tool_servers", ())),
        options=_options(data.get("options")),
        client=_client(request),
    )
    turn = actions.send_message(request.user, new)
    body = {
        "conversation": payloads.conversation(turn.conversation),
        "user_message": payloads.message(turn.user_message),
        "answer": payloads.message(turn.answer),
    }
    return JsonResponse(body, status=201)


def _regenerate(request: HttpRequest, message_id: uuid.UUID) -> JsonResponse:
    data = validated(request, Regeneration)
    answer = actions.regenerate(
        conversation_actions.get_message(request.user, message_id),
        model_name=data.get("model") or "",
        options=_options(data.get("options")),
        client=_client(request),
    )
    return JsonResponse({"answer": payloads.message(answer)}, status=201)


def _cancel(request: HttpRequest, generation_id: uuid.UUID) -> JsonResponse:
    cancel_generation(conversation_actions.get_generation(request.user, generation_id))
    return JsonResponse({}, status=202)


def _said(data: dict[str, Any]) -> str:
    text: str = data["content"]
    if not text.strip() and not data.get("images"):
        raise Refusal("invalid_value", "A message needs some text.", field="content")
    return text


def _options(data: dict[str, Any] | None) -> actions.TurnOptions:
    chosen = data or {}
    return actions.TurnOptions(
        sampling=SamplingChoice(
            temperature=chosen.get("temperature"),
            top_p=chosen.get("top_p"),
            top_k=chosen.get("top_k"),
            seed=chosen.get("seed"),
        ),
        max_tokens=chosen.get("max_tokens"),
        enable_thinking=chosen.get("enable_thinking"),
    )


def _client(request: HttpRequest) -> str:
    return client_name(request.headers.get("User-Agent", ""))


send = endpoint(POST=_send)
regenerate = endpoint(POST=_regenerate)
cancel = endpoint(POST=_cancel)
