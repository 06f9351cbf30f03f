"""How long a prompt would be: asked of intake, with no row, no queue and no ledger line."""

from __future__ import annotations

import time
import uuid

from engine import wire
from hosting.actions.admission import check_may_use
from hosting.actions.generations import Order, tenant_of
from hosting.engine_client import get_client


def start_count(order: Order) -> str:
    """The id under which `Counted` or `Refused` will be. Raises EngineUnavailable, Refusal."""
    check_may_use(order.user, order.api_key, order.model)
    generate = wire.Generate(
        request_id=str(uuid.uuid4()),
        model=order.model.name,
        tenant=tenant_of(order.user.pk),
        priority=wire.Priority.API,
        submitted_at=time.time(),
        sampling=wire.Sampling(seed=0),
        messages=order.messages,
        continues_last=order.continues_last,
        tools=order.tools,
        template_options=order.model.template_options | order.template_options,
    )
    get_client().count_tokens(generate)
    return generate.request_id
