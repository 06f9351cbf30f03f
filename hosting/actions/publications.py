"""Publishes system prompts: an engine computes each once, and everybody's requests use that."""

from __future__ import annotations

import datetime
import logging
import time
import uuid
from functools import partial

from django.db import transaction
from django.utils import timezone

from engine import wire
from hosting.actions.forgetting import forget
from hosting.actions.generations import send_cancel
from hosting.actions.outcome import Outcome, fold
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import PublishedPrompt

PUBLISHER = "publisher"  # whose turn it is in the queue: no person's
_ASK_AGAIN = datetime.timedelta(minutes=10)  # what an engine has not ended by then is lost

_State = PublishedPrompt.State
logger = logging.getLogger(__name__)


def publish(prompt: PublishedPrompt) -> None:
    """Have it computed. With Redis away, or when it gets lost, it is asked for again later."""
    prompt.state, prompt.detail = _State.ASKED, ""
    prompt.request_id = uuid.uuid4()
    prompt.asked_at = timezone.now()
    with transaction.atomic():
        prompt.save()
        transaction.on_commit(partial(_submit, prompt))


def unpublish(prompt: PublishedPrompt) -> None:
    """From now on it is nobody's; the engines delete what was kept for it alone, and keep nothing
    of what still waits to be computed for it."""
    publication = prompt.publication
    with transaction.atomic():
        if prompt.request_id is not None:
            transaction.on_commit(partial(send_cancel, str(prompt.request_id)))
        prompt.delete()
        forget(publication=publication)


def look_after_publications() -> None:
    """Note how the awaited ones ended, and ask again after an engine began anew.

    Raises EngineUnavailable.
    """
    for prompt in PublishedPrompt.objects.awaited():
        events = [event for _, event in get_client().read_events(str(prompt.request_id))]
        outcome = fold(events)
        if outcome is not None:
            _note(prompt, outcome)
        elif timezone.now() - prompt.asked_at > _ASK_AGAIN:
            publish(prompt)
    for prompt in PublishedPrompt.objects.standing().select_related("model"):
        if _newest_start(prompt.model.name) > prompt.engine_started_at:
            publish(prompt)


def _note(prompt: PublishedPrompt, outcome: Outcome) -> None:
    is_done = not outcome.error_code
    PublishedPrompt.objects.filter(pk=prompt.pk, request_id=prompt.request_id).update(
        state=_State.PUBLISHED if is_done else _State.FAILED,
        detail=outcome.error_detail,
        prompt_tokens=outcome.usage.prompt_tokens,
        engine_started_at=_newest_start(prompt.model.name),
    )


def _newest_start(model_name: str) -> float:
    """Of the engines that have this model loaded: for a published prompt none is made to load."""
    return max(
        (
            beat.started_at
            for beat in get_client().engines()
            if any(one.name == model_name and one.state == "loaded" for one in beat.models)
        ),
        default=0.0,
    )


def _submit(prompt: PublishedPrompt) -> None:
    try:
        get_client().submit(_command(prompt))
    except EngineUnavailable:
        logger.warning("publication put off", extra={"request_id": prompt.request_id})


def _command(prompt: PublishedPrompt) -> wire.Generate:
    return wire.Generate(
        request_id=str(prompt.request_id),
        model=prompt.model.name,
        tenant=PUBLISHER,
        priority=wire.Priority.BATCH,
        submitted_at=time.time(),
        sampling=wire.Sampling(seed=0),
        messages=({"role": "system", "content": prompt.system_prompt},),
        tools=tuple(prompt.tools),
        template_options=prompt.model.template_options,
        max_tokens=1,
        publication=prompt.publication,
    )
