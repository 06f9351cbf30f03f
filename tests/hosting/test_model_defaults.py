"""What a model's settings say where a request says nothing, in the command that engines get."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.models import User
from engine import wire
from hosting.actions.generations import start_generation
from hosting.actions.orders import Order, SamplingChoice
from hosting.models import Generation, HostedModel

# Each with what a caller says instead
DEFAULTS = {
    "temperature": (0.3, 0.9),
    "top_p": (0.8, 0.5),
    "top_k": (17, 3),
    "min_p": (0.05, 0.2),
    "presence_penalty": (0.5, -1.0),
    "frequency_penalty": (0.25, 1.0),
    "repetition_penalty": (1.1, 1.3),
}


def asked(person: User, model: HostedModel, **fields: Any) -> wire.Generate:
    order = Order(
        user=person,
        model=model,
        kind=Generation.Kind.API,
        messages=({"role": "user", "content": "Hello"},),
        **fields,
    )
    command = wire.decode(start_generation(order).request)
    assert isinstance(command, wire.Generate)
    return command


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_counts_until_the_caller_says_otherwise(
    person: User, model: HostedModel, name: str
) -> None:
    default, chosen = DEFAULTS[name]
    assert getattr(asked(person, model).sampling, name) not in (default, chosen)
    setattr(model, f"default_{name}", default)
    assert getattr(asked(person, model).sampling, name) == default
    choice = SamplingChoice(**{name: chosen})
    assert getattr(asked(person, model, sampling=choice).sampling, name) == chosen


def test_the_longest_answer_and_the_template_s_options_have_defaults(
    person: User, model: HostedModel
) -> None:
    model.default_max_tokens = 33
    model.template_options = {"enable_thinking": False, "style": "short"}
    plain = asked(person, model)
    assert (plain.max_tokens, plain.template_options) == (33, model.template_options)
    said = asked(person, model, max_tokens=5, template_options={"enable_thinking": True})
    assert said.max_tokens == 5
    assert said.template_options == {"enable_thinking": True, "style": "short"}
