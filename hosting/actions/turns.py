"""One turn of a conversation: a person's message and the generation that answers it."""

from __future__ import annotations

import dataclasses
import uuid
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.limits import allowance_of
from accounts.models import User
from hosting.actions.conversations import (
    branch_to,
    get_conversation,
    get_message,
    get_servable_model,
)
from hosting.actions.ended import counting_ended, settle_ended
from hosting.actions.generations import start_generation
from hosting.actions.hints import hint
from hosting.actions.image_parts import check_images
from hosting.actions.images import ids_in, put_into
from hosting.actions.orders import Order, SamplingChoice
from hosting.actions.prompts import prompt_of
from hosting.actions.refusals import Refusal
from hosting.actions.titles import MAX_TOKENS, title_prompt
from hosting.actions.tool_servers import Offered, offered_tools, switch_servers
from hosting.models import Conversation, Generation, HostedModel, Message, ToolOffer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    sampling: SamplingChoice = dataclasses.field(default_factory=SamplingChoice)
    max_tokens: int | None = None
    enable_thinking: bool | None = None

    @property
    def stored(self) -> dict[str, Any]:
        """As JSON, to ask in the same way once more."""
        plain = dataclasses.asdict(self)
        drawn = plain.pop("sampling").items()
        chosen = {name: value for name, value in drawn if value not in (None, ())}
        return plain | {"sampling": chosen}

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> TurnOptions:
        return cls(**(stored | {"sampling": SamplingChoice(**stored["sampling"])}))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """`conversation` None starts one; `parent` None is its root; model "" keeps the one in use.
    `id`: the message's, as the client names it, so that it may send it again."""

    content: str
    images: tuple[uuid.UUID, ...] = ()
    id: uuid.UUID | None = None
    conversation: uuid.UUID | None = None
    parent: uuid.UUID | None = None
    model: str = ""
    system_prompt: str | None = None
    tool_servers: tuple[int, ...] = ()  # of a new conversation
    options: TurnOptions = dataclasses.field(default_factory=TurnOptions)
    client: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    conversation: Conversation
    user_message: Message
    answer: Message


def send_message(user: User, new: NewTurn) -> Turn:
    """Store the message and an empty answer, and start the generation that fills it. One that is
    sent again under its id is stored once."""
    return counting_ended(user, partial(_send_message, user, new))


def _send_message(user: User, new: NewTurn) -> Turn:
    with transaction.atomic():
        User.objects.hold(user.pk)
        if turn := _known_turn(user, new):
            return turn
        conversation = _conversation_for(user, new)
        parent = _parent_in(conversation, new.parent)
        model = _model_for(conversation, new.model)
        user_message = Message.objects.create(
            id=new.id or uuid.uuid4(),
            conversation=conversation,
            parent=parent,
            role=Message.Role.USER,
            content=new.content,
        )
        put_into(user_message, new.images)
        answer = start_answer(user_message, model=model, options=new.options, client=new.client)
    return Turn(conversation=conversation, user_message=user_message, answer=answer)


def regenerate(answer: Message, *, model_name: str, options: TurnOptions, client: str) -> Message:
    """Another version of `answer`, as its sibling."""
    if answer.role != Message.Role.ASSISTANT or answer.parent is None:
        raise Refusal("invalid_value", "Only answers can be regenerated.", field="message")
    conversation = answer.conversation
    model = _model_for(conversation, model_name)
    question_id = answer.parent.pk

    def start() -> Message:
        with transaction.atomic():
            User.objects.hold(conversation.owner_id)
            question = get_message(conversation.owner, question_id)
            return start_answer(question, model=model, options=options, client=client)

    return counting_ended(conversation.owner, start)


def start_title(conversation_id: uuid.UUID) -> Generation | None:
    """Ask for a title, after the first answer. None where it has one or nothing was answered."""
    untitled = Conversation.objects.filter(pk=conversation_id, title="")
    with transaction.atomic():
        for owner_id in untitled.values_list("owner", flat=True):
            User.objects.hold(owner_id)  # who deletes it has done so, or stops this too
        conversation = untitled.first()
        return _start_title(conversation) if conversation is not None else None


def _start_title(conversation: Conversation) -> Generation | None:
    answer = _first_answer(conversation)
    if answer is None:
        return None
    asked = [one for one in branch_to(answer) if one.role == Message.Role.USER]
    model = HostedModel.objects.answering().filter(name=answer.generation.model_name).first()
    if model is None or not asked:
        return None
    return start_generation(
        Order(
            user=conversation.owner,
            kind=Generation.Kind.TITLE,
            model=model,
            messages=title_prompt(
                question=asked[-1].content or "(an image)", answer=answer.content
            ),
            sampling=SamplingChoice(temperature=0.0),
            max_tokens=MAX_TOKENS,
            template_options={"enable_thinking": False},
            conversation=conversation,
        )
    )


def _first_answer(conversation: Conversation) -> Message | None:
    answered = conversation.messages.filter(
        role=Message.Role.ASSISTANT, generation__state=Generation.State.DONE
    )
    return answered.exclude(content="").select_related("generation").first()


def _known_turn(user: User, new: NewTurn) -> Turn | None:
    """What this message began when it came before. Raises Refusal if it is another one's id."""
    if new.id is None:
        return None
    known = Message.objects.filter(pk=new.id).select_related("conversation").first()
    if known is None:
        return None
    answer = known.children.select_related("generation").first()
    is_own = known.conversation.owner_id == user.pk and known.role == Message.Role.USER
    is_same = (known.content, tuple(ids_in(known))) == (new.content, new.images)
    if not is_own or not is_same or answer is None:
        message = "Another message has this id. Send each with its own."
        raise Refusal("id_taken", message, field="id", status=409)
    return Turn(conversation=known.conversation, user_message=known, answer=answer)


def _conversation_for(user: User, new: NewTurn) -> Conversation:
    if new.conversation is not None:
        return get_conversation(user, new.conversation)
    begun = Conversation.objects.create(owner=user, system_prompt=new.system_prompt or "")
    if new.tool_servers:
        switch_servers(begun, new.tool_servers)
    return begun


def _parent_in(conversation: Conversation, parent_id: uuid.UUID | None) -> Message | None:
    if parent_id is None:
        return None
    parent = conversation.messages.filter(pk=parent_id).select_related("generation").first()
    if parent is not None and parent.role == Message.Role.TOOL:
        return _decided(parent)
    if parent is None or parent.role != Message.Role.ASSISTANT:
        raise Refusal(
            "invalid_value", "The parent must be an answer of this conversation.", field="parent"
        )
    generation = getattr(parent, "generation", None)
    if generation is not None and generation.is_open:
        settle_ended(Q(pk=generation.pk))
        parent.refresh_from_db()
        generation.refresh_from_db()
    if generation is not None and generation.is_open:
        raise Refusal(
            "still_generating", "The answer before is not finished yet.", field="parent", status=409
        )
    return parent


def _decided(calls: Message) -> Message:
    if calls.calls.open().exists():
        message = "Decide first on the tools that the answer wants to use, or stop it."
        raise Refusal("still_generating", message, field="parent", status=409)
    return calls


def _model_for(conversation: Conversation, name: str) -> HostedModel:
    """The one named; else the conversation's, if it is there; else the first that may be used."""
    if name:
        return get_servable_model(name)
    limits = allowance_of(conversation.owner).effective
    models = HostedModel.objects.answering().open_to(conversation.owner)
    usable = [model for model in models if limits.may_use(model.name)]
    same = [model for model in usable if model.name == conversation.model_name]
    return next(iter([*same, *usable]), None) or get_servable_model("")


def start_answer(
    question: Message,
    *,
    model: HostedModel,
    options: TurnOptions,
    client: str,
    is_asked: bool = True,
) -> Message:
    """`question`: a person's message, or calls that have ended. One that nobody asked for takes
    nobody away from where they look. In a transaction, with the owner held. Raises Refusal."""
    conversation = question.conversation
    answer = Message.objects.create(
        conversation=conversation, parent=question, role=Message.Role.ASSISTANT
    )
    if is_asked or conversation.active_leaf_id == question.pk:
        conversation.active_leaf = answer
    if is_asked:
        conversation.model_name = model.name
    conversation.updated_at = timezone.now()
    conversation.save(update_fields=["active_leaf", "model_name", "updated_at"])
    messages = prompt_of(conversation, branch_to(question), with_tools=model.supports_tools)
    check_images(model, messages)
    offered = offered_tools(conversation, model)
    if offered:
        _note_offer(answer, offered, options=options, client=client)
    answer.generation = start_generation(
        Order(
            user=conversation.owner,
            kind=Generation.Kind.CHAT,
            model=model,
            messages=messages,
            tools=tuple(tool.as_openai for tool in offered),
            sampling=options.sampling,
            max_tokens=options.max_tokens,
            template_options=_template_options(options),
            client=client,
            conversation=conversation,
            message=answer,
        )
    )
    transaction.on_commit(
        lambda: hint(person_id=conversation.owner_id, conversation_id=conversation.pk)
    )
    return answer


def _note_offer(
    answer: Message, offered: list[Offered], *, options: TurnOptions, client: str
) -> None:
    ToolOffer.objects.create(
        message=answer,
        tools={tool.name: [tool.server_id, tool.tool_name] for tool in offered},
        options=options.stored,
        client=client[:100],
    )


def _template_options(options: TurnOptions) -> dict[str, Any]:
    if options.enable_thinking is None:
        return {}
    return {"enable_thinking": options.enable_thinking}
