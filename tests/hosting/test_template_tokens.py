"""Limits leave room for what a chat template says of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accounts.models import Quota, User
from engine import wire
from engine.intake.door import Door
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order
from hosting.engine_client import get_client
from hosting.models import Generation, HostedModel
from hosting.tasks import look_at_templates
from tests.engine.intake.conftest import Check, MakeFolder, check, door, make_folder
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.web_process import wait_until
from tests.makers import make_generate

__all__ = ["check", "door", "make_folder"]
PREAMBLE = "You think in steps, and show each of them. " * 20
TEMPLATE = (
    f"{{%- if messages[0].role != 'system' %}}{PREAMBLE}{{% endif %}}"
    "{%- for message in messages %}{{ message.role + ': ' + message.content }}{% endfor %}"
    "{{- style }}"
)
HELLO = ({"role": "user", "content": "Hi"},)
MAX_TOKENS = 50


@pytest.fixture
def understood(
    make_folder: MakeFolder, check: Check, person: User, model: HostedModel
) -> Callable[..., wire.Work]:
    """What intake makes of a request under a budget."""
    make_folder(template=TEMPLATE, config={"max_position_embeddings": 4096, "vocab_size": 300})
    Quota.objects.create(user=person, tokens_per_day=1_000_000)

    def ask(**fields: Any) -> wire.Work:
        kind, most = Generation.Kind.API, MAX_TOKENS
        order = Order(
            user=person, kind=kind, model=model, messages=HELLO, max_tokens=most, **fields
        )
        command = wire.decode(start_generation(order).request)
        return check(
            messages=command.messages,
            template_options=command.template_options,
            max_tokens=command.max_tokens,
            budget_tokens=command.budget_tokens,
        )

    return ask


def test_a_model_with_a_long_preamble_answers_a_short_question_at_length(
    understood: Callable[..., wire.Work], door: Door, model: HostedModel, tmp_path: Path
) -> None:
    spec = wire.ModelSpec(name="demo", path=str(tmp_path))
    model.template_tokens = door.count(make_generate("a"), spec)
    assert model.template_tokens > 800
    assert understood().max_tokens == MAX_TOKENS


def test_what_a_request_tells_the_template_is_counted(
    understood: Callable[..., wire.Work], model: HostedModel
) -> None:
    model.template_tokens = len(PREAMBLE) + 20
    assert understood(template_options={"style": "x" * 500}).max_tokens == MAX_TOKENS


def test_what_a_template_says_of_its_own_is_looked_at(
    engine: ScriptedEngine, model: HostedModel
) -> None:
    wait_until(get_client().is_intake_alive, "asked for work")
    look_at_templates()
    model.refresh_from_db()
    assert model.template_tokens == 7
