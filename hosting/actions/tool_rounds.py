"""The calls of one answer: what its person decides on each, and the answer that comes after them.

    answer with calls → a message that holds the calls → the answer that knows their results

Whoever changes something here holds the conversation's owner first, as all who start answers do.
"""

from __future__ import annotations

import datetime
import json
import logging
import uuid
from functools import partial

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from hosting.actions.background import enqueue
from hosting.actions.conversations import branch_to, get_message, get_servable_model
from hosting.actions.ended import counting_ended
from hosting.actions.hints import hint
from hosting.actions.refusals import Refusal, not_found
from hosting.actions.tool_servers import fault_of_use
from hosting.actions.turns import TurnOptions, start_answer
from hosting.models import Generation, Message, ToolCall, ToolConsent, ToolOffer, ToolServer

MAX_ROUNDS = 8  # that follow one message of a person
MAX_CALLS = 16  # of one answer
MAX_ARGUMENTS = 100_000  # characters
ONCE, IN_CONVERSATION, NO = "once", "conversation", "no"
DECISIONS = (ONCE, IN_CONVERSATION, NO)
_TOO_MANY_ROUNDS = (
    f"At most {MAX_ROUNDS} rounds of tools follow one message, so these were not run. "
    "Write on, and there are as many again."
)
_NOT_RUN = "Not run: there were too many rounds of tools."
_State = ToolCall.State
_DECLINED = {
    _State.WAITING: "The person did not allow this call. It was not run.",
    _State.LOST: "This call may have run; its result is lost. The person does not try it again.",
}
_STOPPED = {
    _State.WAITING: "The person stopped this before it was run.",
    _State.ALLOWED: "The person stopped this before it was run.",
    _State.RUNNING: "The person stopped this while it ran. It may have run to its end.",
    _State.LOST: "The person stopped this. It may have run.",
}
_MISSED = datetime.timedelta(hours=1)
_GRACE = datetime.timedelta(seconds=10)

logger = logging.getLogger(__name__)


def begin_round(answer_id: uuid.UUID) -> None:
    """Once an answer has ended with calls: keep them for its person to decide on, or go on with
    what they have decided before. Once, whoever calls it how often."""
    owner_id = Message.objects.filter(pk=answer_id).values_list("conversation__owner", flat=True)
    with transaction.atomic():
        for pk in owner_id:
            User.objects.hold(pk)
        answer = _unanswered().filter(pk=answer_id).select_related("tool_offer").first()
        if answer is None:
            return
        calls = Message.objects.create(
            conversation=answer.conversation, parent=answer, role=Message.Role.TOOL
        )
        is_over = _num_rounds(answer) >= MAX_ROUNDS
        for number, plain in enumerate(answer.tool_calls):
            _create_call(calls, number, plain, answer.tool_offer, is_over=is_over)
        conversation = answer.conversation
        if conversation.active_leaf_id == answer.pk:
            conversation.active_leaf = calls
            conversation.save(update_fields=["active_leaf"])
        if is_over:
            _note(calls, _TOO_MANY_ROUNDS)
        else:
            go_on_when_ended(calls)
        _tell(calls)


def begin_missed_rounds() -> None:
    """Of answers whose end was told to nobody, for a process died or Redis was away."""
    now = timezone.now()
    ended = _unanswered().filter(
        generation__finished_at__gt=now - _MISSED, generation__finished_at__lt=now - _GRACE
    )
    for pk in ended.values_list("pk", flat=True):
        try:
            begin_round(pk)
        except Exception:  # the others have nothing to do with it
            logger.exception("a round of tools was not begun", extra={"request_id": str(pk)})


def get_call(user: User, call_id: uuid.UUID) -> ToolCall:
    own = ToolCall.objects.of(user.pk)
    found = own.select_related("server", "message__conversation__owner").filter(pk=call_id).first()
    if found is None:
        raise not_found("call")
    return found


def decide(seen: ToolCall, decision: str) -> Message:
    """What the person says to one call; the message that holds it. Raises Refusal."""
    owner = seen.message.conversation.owner
    with transaction.atomic():
        User.objects.hold(owner.pk)
        call = get_call(owner, seen.pk)
        if call.state not in ToolCall.ASKING_STATES:
            message = "This was decided already, perhaps in another tab."
            raise Refusal("already_decided", message, status=409)
        if decision == NO:
            change(call, to=_State.DECLINED, result=_DECLINED[_State(call.state)])
        else:
            _allow(call, is_for_conversation=decision == IN_CONVERSATION)
        go_on_when_ended(call.message)
        _tell(call.message)
    return call.message


def stop_round(user: User, message_id: uuid.UUID) -> None:
    """None of its calls begins any more, what runs is given up, and no answer follows."""
    with transaction.atomic():
        User.objects.hold(user.pk)
        calls = _own_calls_message(user, message_id)
        for call in calls.calls.open():
            change(call, to=_State.STOPPED, result=_STOPPED[_State(call.state)])
        _tell(calls)


def go_on(user: User, message_id: uuid.UUID) -> Message:
    """The answer after calls that have ended; the one that is there, if there is one."""
    with transaction.atomic():
        User.objects.hold(user.pk)
        calls = _own_calls_message(user, message_id)
        if calls.calls.open().exists():
            raise Refusal("still_open", "Decide on all calls first.", status=409)
        known = calls.children.filter(role=Message.Role.ASSISTANT).last()
        if known is not None:
            return known
        _note(calls, "")
        return counting_ended(user, partial(_answer_after, calls, is_asked=True))


def change(call: ToolCall, *, to: str, result: str = "") -> bool:
    """From the state that the caller has seen; False: somebody else has changed it meanwhile.

    Of a running one `lost_at` tells whose run it is: who is late ends no later one.
    """
    seen = ToolCall.objects.filter(pk=call.pk, state=call.state, lost_at=call.lost_at)
    return bool(seen.update(state=to, result=result, changed_at=timezone.now(), lost_at=None))


def go_on_when_ended(calls: Message) -> None:
    """In a transaction, with the owner held. What refuses the next answer is told in the message,
    and its person may ask for it again."""
    conversation = calls.conversation
    conversation.refresh_from_db()  # it may have been read before a tool ran
    if calls.calls.open().exists() or calls.children.exists() or not conversation.owner.is_active:
        return
    if calls.calls.filter(state=_State.STOPPED).exists():
        return
    try:
        with transaction.atomic():
            counting_ended(conversation.owner, partial(_answer_after, calls, is_asked=False))
    except Refusal as refusal:
        _note(calls, f"There is no answer to this yet: {refusal.message}")


def enqueue_call(call: ToolCall) -> None:
    transaction.on_commit(partial(enqueue, "run_tool_call", str(call.pk)))


def _unanswered() -> QuerySet[Message]:
    """Answers that have ended with calls of tools that they were offered, and nothing after."""
    return Message.objects.filter(
        generation__kind=Generation.Kind.CHAT,
        generation__state=Generation.State.DONE,
        generation__finish_reason="tool_calls",
        tool_offer__isnull=False,
        children=None,
    ).select_related("conversation__owner")


def _num_rounds(answer: Message) -> int:
    """So many have been since the person's last message."""
    count = 0
    for message in reversed(branch_to(answer)):
        if message.role == Message.Role.USER:
            break
        count += message.role == Message.Role.TOOL
    return count


def _create_call(
    calls: Message, number: int, plain: dict[str, object], offer: ToolOffer, *, is_over: bool
) -> None:
    function = plain["function"]
    assert isinstance(function, dict)
    server_id, tool_name = offer.tools.get(function["name"], (None, ""))
    server = ToolServer.objects.filter(pk=server_id).first() if server_id else None
    call = ToolCall(
        message=calls,
        number=number,
        call_id=str(plain["id"])[:200],
        called_name=function["name"],
        server=server,
        server_name=server.name if server else "",
        tool_name=tool_name,
        arguments=function["arguments"],
    )
    fault = _NOT_RUN if is_over else _fault_of(call, calls)
    if fault is not None:
        call.state, call.result = _State.DECLINED if is_over else _State.FAILED, fault
    elif _has_consent(call, calls):
        call.state = _State.ALLOWED
        enqueue_call(call)
    call.save(force_insert=True)


def _fault_of(call: ToolCall, calls: Message) -> str | None:
    if call.number >= MAX_CALLS:
        return f"Not run: at most {MAX_CALLS} calls are run at once."
    if not call.tool_name:
        return "Not run: there is no tool of this name."
    if arguments_of(call) is None:
        return "Not run: the arguments are not a JSON object, or too long."
    fault = fault_of_use(call.server, call.tool_name, calls.conversation)
    return f"Not run: {fault}" if fault else None


def arguments_of(call: ToolCall) -> dict[str, object] | None:
    if len(call.arguments) > MAX_ARGUMENTS:
        return None
    try:
        read = json.loads(call.arguments)
        json.dumps(read, allow_nan=False)  # as it is sent
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _has_consent(call: ToolCall, calls: Message) -> bool:
    return ToolConsent.objects.filter(
        conversation=calls.conversation, server=call.server, tool_name=call.tool_name
    ).exists()


def _allow(call: ToolCall, *, is_for_conversation: bool) -> None:
    """Raises Refusal where it may not be used any more."""
    conversation = call.message.conversation
    fault = fault_of_use(call.server, call.tool_name, conversation)
    if fault is not None:
        raise Refusal("not_allowed", fault, status=403)
    allowed = [call]
    if is_for_conversation:
        ToolConsent.objects.get_or_create(
            conversation=conversation, server=call.server, tool_name=call.tool_name
        )
        same = call.message.calls.filter(server=call.server, tool_name=call.tool_name)
        allowed += same.filter(state=_State.WAITING).exclude(pk=call.pk)
    for one in allowed:
        if change(one, to=_State.ALLOWED):
            enqueue_call(one)


def _answer_after(calls: Message, *, is_asked: bool) -> Message:
    """Of the same model as the answer before, drawn in the same way. Raises Refusal."""
    before = calls.parent
    assert before is not None
    offer = ToolOffer.objects.filter(message=before).first()
    made_by = Generation.objects.filter(message=before).first()
    name = made_by.model_name if made_by else calls.conversation.model_name
    with transaction.atomic():
        return start_answer(
            calls,
            model=get_servable_model(name),
            options=TurnOptions.from_stored(offer.options) if offer else TurnOptions(),
            client=offer.client if offer else "",
            is_asked=is_asked,
        )


def _own_calls_message(user: User, message_id: uuid.UUID) -> Message:
    found = get_message(user, message_id)
    if found.role != Message.Role.TOOL:
        raise not_found("call")
    return found


def _note(calls: Message, text: str) -> None:
    Message.objects.filter(pk=calls.pk).update(content=text)


def _tell(calls: Message) -> None:
    conversation = calls.conversation
    transaction.on_commit(
        partial(hint, person_id=conversation.owner_id, conversation_id=conversation.pk)
    )
