"""Settings of a model as its clients meet them, from the moment they are saved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import NotFoundError, OpenAI, PermissionDeniedError

from tests.flow.asking import ask, request
from tests.stack import Stack

pytestmark = pytest.mark.stack
AS_MADE = {
    "default_max_tokens": None, "default_repetition_penalty": None, "template_options": {},
    "context_limit_tokens": None,
}  # fmt: skip


def change(stack: Stack, model: str, *, groups: str = "", **fields: object) -> None:
    """As the administration does it. `groups`: names, with commas between them."""
    stack.manage(
        "shell",
        "-c",
        "from django.contrib.auth.models import Group; "
        "from hosting.actions.hosted_models import publish_models; "
        "from hosting.models import HostedModel; "
        f"models = HostedModel.objects.filter(name={model!r}); models.update(**{fields!r}); "
        f"names = {groups!r}.split(',') if {groups!r} else []; "
        "models.get().allowed_groups.set([Group.objects.get_or_create(name=n)[0] for n in names]);"
        "publish_models()",
    )


@pytest.fixture
def settled(stack: Stack, endless: str) -> Iterator[str]:
    yield endless
    change(stack, endless, **AS_MADE)


def test_defaults_count_where_a_request_says_nothing(
    stack: Stack, client: OpenAI, settled: str
) -> None:
    prompt = "Say it again and again."
    plain = client.chat.completions.create(**request(settled, prompt, max_tokens=24))
    assert plain.usage is not None
    change(
        stack,
        settled,
        default_max_tokens=7,
        default_repetition_penalty=1.9,
        template_options={"enable_thinking": False},
        context_limit_tokens=200,
    )
    body = request(settled, prompt)
    del body["max_tokens"]
    by_default = client.chat.completions.create(**body)
    assert by_default.usage is not None
    assert by_default.usage.completion_tokens == 7
    assert by_default.choices[0].finish_reason == "length"
    # The template closes the thinking itself: that is more prompt
    assert by_default.usage.prompt_tokens > plain.usage.prompt_tokens
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    options = {"repetition_penalty": 1.0, **thinking}
    explicit = ask(client, settled, prompt, max_tokens=24, extra_body=options)
    assert explicit == plain.choices[0].message.content
    assert ask(client, settled, prompt, max_tokens=24, extra_body=thinking) != explicit
    with pytest.raises(Exception, match="maximum context length is 200 tokens"):
        ask(client, settled, "word " * 400)


def test_a_model_of_a_group_is_nobody_elses(stack: Stack, client: OpenAI, settled: str) -> None:
    change(stack, settled, groups="research")
    assert settled not in [model.id for model in client.models.list()]
    with pytest.raises((PermissionDeniedError, NotFoundError)):
        ask(client, settled, "Hello", max_tokens=2)
    stack.manage(
        "shell",
        "-c",
        "from django.contrib.auth.models import Group; from accounts.models import User; "
        f"person = User.objects.get(email={stack.admin_email!r}); "
        "person.groups.add(Group.objects.get(name='research'))",
    )
    assert settled in [model.id for model in client.models.list()]
    assert ask(client, settled, "Hello", max_tokens=2)
