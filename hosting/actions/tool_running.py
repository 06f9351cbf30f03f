"""Runs one allowed call, once: it is claimed in the database before anything is sent.

Who dies with a claim leaves a call that is RUNNING beyond its time. It is then LOST, and its person
is asked, for only they can know whether it may run twice.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import threading
import uuid
from typing import Any

from django.db import Error as DatabaseFault
from django.db import connection, transaction
from django.utils import timezone

from accounts.models import User
from hosting.actions.hints import hint
from hosting.actions.tool_rounds import arguments_of, change, enqueue_call, go_on_when_ended
from hosting.actions.tool_servers import GOODBYE_SECONDS, fault_of_use, token_of
from hosting.mcp.addresses import find_place
from hosting.mcp.client import Session
from hosting.mcp.errors import NoLongerWanted, ServerRefused, ToolServerError
from hosting.mcp.http import Exchange
from hosting.models import ToolCall

_State = ToolCall.State
_LOST_AFTER = datetime.timedelta(seconds=15)  # more than its time
_LEFT_AFTER = datetime.timedelta(seconds=10)  # nobody has begun it
_MOST_OF_ONE = 16  # calls of a person that run at once: half of what there is room for
_MAY_HAVE_RUN = "It may have run all the same."
_NOT_RUN = "It was not run."

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """Everything that is to be sent: no row is asked while the server is."""

    call: ToolCall
    url: str
    may_be_private: bool
    token: str
    seconds: int
    arguments: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    state: str
    result: str


def run_call(call_id: uuid.UUID, stop: threading.Event) -> None:
    """In a thread of its own. `stop`: the process is told to end."""
    try:
        claim = None if stop.is_set() else _claim(call_id)
        connection.close()  # not held while the server is asked
        if claim is not None:
            _finish(claim.call, _send(claim, stop))
    except Exception:
        logger.exception("a call of a tool was left", extra={"request_id": str(call_id)})
    finally:
        connection.close()


def look_after_calls() -> None:
    """Runs every 2 s: those whose runner is gone are lost, those that nobody began are begun."""
    now = timezone.now()
    for call in ToolCall.objects.filter(state=_State.RUNNING, lost_at__lt=now):
        if change(call, to=_State.LOST):
            _tell(call)
    left = ToolCall.objects.filter(state=_State.ALLOWED, changed_at__lt=now - _LEFT_AFTER)
    for call in left:
        if change(call, to=_State.ALLOWED):
            enqueue_call(call)


def _claim(call_id: uuid.UUID) -> _Claim | None:
    """The call, which is now RUNNING and nobody else's; None where there is nothing to run."""
    found = ToolCall.objects.select_related("server", "message__conversation__owner")
    call = found.filter(pk=call_id, state=_State.ALLOWED).first()
    if call is None or _has_many(call.message.conversation.owner_id):
        return None
    try:
        claim = _checked(call)
    except ToolServerError as error:
        _finish(call, _Ending(state=_State.FAILED, result=f"Not run: {error.message}"))
        return None
    now = timezone.now()
    lost_at = now + datetime.timedelta(seconds=claim.seconds) + _LOST_AFTER
    claimed = ToolCall.objects.filter(pk=call.pk, state=_State.ALLOWED).update(
        state=_State.RUNNING, changed_at=now, lost_at=lost_at
    )
    if not claimed:
        return None
    call.state, call.lost_at = _State.RUNNING, lost_at
    _tell(call)
    return claim


def _has_many(person_id: int) -> bool:
    """So many run that this one is left for now; it is begun when `look_after_calls` finds it."""
    running = ToolCall.objects.of(person_id).filter(state=_State.RUNNING)
    return running.count() >= _MOST_OF_ONE


def _checked(call: ToolCall) -> _Claim:
    """What is to be sent, if it may be: much may have changed since the person agreed.

    Raises ToolServerError.
    """
    fault = fault_of_use(call.server, call.tool_name, call.message.conversation)
    arguments = arguments_of(call)
    if fault is not None or call.server is None or arguments is None:
        raise ToolServerError(fault or "the arguments are not a JSON object.")
    return _Claim(
        call=call,
        url=call.server.url,
        may_be_private=call.server.may_be_private,
        token=token_of(call.server),
        seconds=call.server.timeout_seconds,
        arguments=arguments,
    )


def _send(claim: _Claim, stop: threading.Event) -> _Ending:
    def is_wanted() -> bool:
        return not stop.is_set() and _is_wanted(claim.call)

    try:
        place = find_place(claim.url, may_be_private=claim.may_be_private)
        with Exchange(place, seconds=claim.seconds, is_wanted=is_wanted) as exchange:
            session = Session(exchange, token=claim.token)
            session.begin()
            if not is_wanted():  # finding the host takes its own time
                raise NoLongerWanted("It was given up.")
            result = session.call_tool(claim.call.tool_name, claim.arguments)
        with Exchange(place, seconds=GOODBYE_SECONDS) as exchange:
            session.end(exchange)
    except ToolServerError as error:
        if isinstance(error, NoLongerWanted) and stop.is_set():
            is_unsure = error.may_have_run
            return _Ending(state=_State.LOST if is_unsure else _State.ALLOWED, result="")
        return _Ending(state=_State.FAILED, result=_told(error))
    state = _State.FAILED if result.is_error else _State.DONE
    return _Ending(state=state, result=result.text)


def _told(error: ToolServerError) -> str:
    if isinstance(error, ServerRefused):
        return error.message
    return f"{error.message} {_MAY_HAVE_RUN if error.may_have_run else _NOT_RUN}"


def _finish(call: ToolCall, ending: _Ending) -> None:
    """Kept if the call is still what it was: a stopped one stays stopped."""
    conversation = call.message.conversation
    with transaction.atomic():
        User.objects.hold(conversation.owner_id)
        if not change(call, to=ending.state, result=ending.result):
            return
        go_on_when_ended(call.message)
    _tell(call)


def _is_wanted(call: ToolCall) -> bool:
    """Not stopped by its person, nor taken from them. A database that is away stops nothing."""
    try:
        return (
            ToolCall.objects.filter(pk=call.pk, state=_State.RUNNING, lost_at=call.lost_at)
            .filter(server__is_enabled=True, message__conversation__owner__is_active=True)
            .exists()
        )
    except DatabaseFault:
        return True
    finally:
        connection.close()


def _tell(call: ToolCall) -> None:
    conversation = call.message.conversation
    hint(person_id=conversation.owner_id, conversation_id=conversation.pk)
