"""How long a prompt would be: asked of intake, with no row, no queue and no ledger line."""

from __future__ import annotations

import time
import uuid
from typing import Any

from engine import wire
from hosting.actions.admission import check_may_use
from hosting.actions.generations import tenant_of
from hosting.actions.image_parts import wire_form
from hosting.actions.orders import Order
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import HostedModel

TRIAL_SECONDS = 3.0  # a template may take one, and others' requests come first
_NOBODY = "system"


def start_count(order: Order) -> str:
    """The id under which `Counted` or `Refused` will be. Raises EngineUnavailable, Refusal."""
    check_may_use(order.user, order.api_key, order.model)
    return _submit(
        order.model,
        tenant=tenant_of(order.user.pk),
        **wire_form(order.messages),
        continues_last=order.continues_last,
        tools=order.tools,
        template_options=order.model.template_options | order.template_options,
    )


def conversation_fault(model: HostedModel) -> str:
    """Why intake can make no prompt of a conversation with this model; empty where it can, or where
    nobody says so in time.
    """
    answer = _trial(model)
    if not isinstance(answer, wire.Refused) or answer.code == wire.Code.MODEL_NOT_FOUND:
        return ""
    return answer.detail


def measure_templates() -> None:
    """Note what each model's chat template adds of its own, so that limits leave room for it."""
    for model in HostedModel.objects.answering():
        answer = _trial(model)
        if isinstance(answer, wire.Counted) and answer.prompt_tokens != model.template_tokens:
            HostedModel.objects.filter(pk=model.pk).update(template_tokens=answer.prompt_tokens)


def _trial(model: HostedModel) -> wire.Event | None:
    """What intake says of the shortest conversation; None where it says nothing in time."""
    try:
        if not get_client().is_intake_alive():
            return None
        request_id = _submit(
            model,
            tenant=_NOBODY,
            messages=({"role": "user", "content": "Hello"},),
            template_options=model.template_options,
        )
        return get_client().wait_first(request_id, seconds=TRIAL_SECONDS)
    except EngineUnavailable:
        return None


def _submit(model: HostedModel, **fields: Any) -> str:
    generate = wire.Generate(
        request_id=str(uuid.uuid4()),
        model=model.name,
        priority=wire.Priority.API,
        submitted_at=time.time(),
        sampling=wire.Sampling(seed=0),
        **fields,
    )
    get_client().count_tokens(generate)
    return generate.request_id
