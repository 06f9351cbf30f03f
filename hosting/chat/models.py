"""The models a person can choose from, and whether they are in memory."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse

from accounts.limits import allowance_of
from hosting.actions.model_states import states_in_engines
from hosting.chat import payloads
from hosting.chat.endpoint import endpoint
from hosting.models import HostedModel


def _list(request: HttpRequest) -> JsonResponse:
    in_engines = states_in_engines()
    limits = allowance_of(request.user).effective
    models = [
        payloads.model(row, state=_state(row, in_engines))
        for row in HostedModel.objects.enabled()
        .open_to(request.user)
        .filter(kind=HostedModel.Kind.GENERATE)
        if limits.may_use(row.name)
    ]
    return JsonResponse({"models": models})


def _state(row: HostedModel, in_engines: dict[str, str]) -> str:
    if row.state != HostedModel.State.READY:
        return row.state
    return in_engines.get(row.name, "cold")


model_list = endpoint(GET=_list)
