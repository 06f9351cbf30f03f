"""The anthropic package."""

from __future__ import annotations

import time
from typing import Any

import anthropic
from cases import QUESTION, TOO_LONG, TWO_CITIES, UNICODE, WEATHER, Service, run

TOOL: Any = {
    "name": "get_weather",
    "description": "Get the weather in a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
GREEDY: Any = {"extra_body": {"temperature": 0.0}}  # the package has no argument for it
LONG: Any = [{"role": "user", "content": "Remember the word stone. " * 60 + QUESTION}]


def client(service: Service, **options: Any) -> anthropic.Anthropic:
    chosen = {"api_key": service.key, "base_url": service.url, "max_retries": 0, **options}
    return anthropic.Anthropic(**chosen)


def asked(service: Service, text: str, **fields: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": text}]
    body = {"model": service.model, "max_tokens": 200, "messages": said}
    return {**body, **GREEDY, **fields}


def text(service: Service) -> Any:
    return client(service).messages.create(**asked(service, QUESTION)).to_dict()


def streamed(service: Service) -> Any:
    """As `text`, put together by the package."""
    with client(service).messages.stream(**asked(service, QUESTION)) as stream:
        kinds = [event.type for event in stream]
        return {"kinds": kinds, "message": stream.get_final_message().to_dict()}


def length(service: Service) -> Any:
    fields = asked(service, "Count to 100.", max_tokens=5)
    return client(service).messages.create(**fields).to_dict()


def stop(service: Service) -> Any:
    fields = asked(service, "Count to 100.", stop_sequences=["7"])
    return client(service).messages.create(**fields).to_dict()


def tool(service: Service) -> Any:
    with client(service).messages.stream(**asked(service, WEATHER, tools=[TOOL])) as stream:
        return stream.get_final_message().to_dict()


def two_tools(service: Service) -> Any:
    with client(service).messages.stream(**asked(service, TWO_CITIES, tools=[TOOL])) as stream:
        return stream.get_final_message().to_dict()


def forced_tool(service: Service) -> Any:
    choice = {"type": "tool", "name": "get_weather"}
    fields = asked(service, "Hello!", tools=[TOOL], tool_choice=choice)
    return client(service).messages.create(**fields).to_dict()


def tool_result(service: Service) -> Any:
    made = client(service)
    called = made.messages.create(**asked(service, WEATHER, tools=[TOOL]))
    call = next(block for block in called.content if block.type == "tool_use")
    result = '{"temperature": 21, "condition": "sunny"}'
    said: Any = [
        {"role": "user", "content": WEATHER},
        {"role": "assistant", "content": [block.to_dict() for block in called.content]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": result}],
        },
    ]
    return made.messages.create(**asked(service, "", tools=[TOOL], messages=said)).to_dict()


def thinking(service: Service) -> Any:
    think = {"type": "enabled", "budget_tokens": 1024}
    fields = asked(service, QUESTION, thinking=think, max_tokens=2000)
    with client(service).messages.stream(**fields) as stream:
        return stream.get_final_message().to_dict()


def unicode(service: Service) -> Any:
    """A random model's tokens seldom end where a character does."""
    fields = asked(service, UNICODE, model="endless", max_tokens=60)
    whole = client(service).messages.create(**fields)
    with client(service).messages.stream(**fields) as stream:
        return {"whole": whole.content[0].text, "streamed": "".join(stream.text_stream)}


def cached(service: Service) -> Any:
    made, fields = client(service), asked(service, "", messages=LONG)
    return [made.messages.create(**fields).usage.to_dict() for _ in range(2)]


def counted(service: Service) -> Any:
    made, fields = client(service), {"model": service.model, "messages": LONG}
    spent = made.messages.create(**asked(service, "", messages=LONG)).usage
    used = spent.input_tokens + (spent.cache_read_input_tokens or 0)
    return [made.messages.count_tokens(**fields).input_tokens, used]


def models(service: Service) -> Any:
    return [one.to_dict(mode="json") for one in client(service).models.list()]


def wrong_key(service: Service) -> Any:
    return client(service, api_key="sk-wrong").messages.create(**asked(service, "Hi")).to_dict()


def wrong_model(service: Service) -> Any:
    return client(service).messages.create(**asked(service, "Hi", model="gone")).to_dict()


def too_long(service: Service) -> Any:
    return client(service).messages.create(**asked(service, TOO_LONG)).to_dict()


def batch(service: Service) -> Any:
    """Two messages, one of them no good, and that batch's way to its end."""
    batches = client(service).messages.batches
    body = {name: value for name, value in asked(service, QUESTION).items() if name != "extra_body"}
    requests: Any = [
        {"custom_id": name, "params": body | changes}
        for name, changes in (("good", {"temperature": 0.0}), ("bad", {"max_tokens": -1}))
    ]
    made = batches.create(requests=requests)
    while made.processing_status != "ended":
        time.sleep(0.2)
        made = batches.retrieve(made.id)
    results = [one.to_dict() for one in batches.results(made.id)]
    listed = [one.id for one in batches.list(limit=1)]
    deleted = batches.delete(made.id).to_dict()
    return {
        "made": made.to_dict(mode="json"),
        "results": results,
        "listed": listed,
        "deleted": deleted,
    }


def left(service: Service) -> Any:
    """Reads the first words and goes."""
    fields = asked(service, "Hello", model="endless", max_tokens=3000)
    with client(service).messages.stream(**fields) as stream:
        next(iter(stream.text_stream))
        return stream.current_message_snapshot.id


if __name__ == "__main__":
    run(
        [
            text, streamed, length, stop, tool, two_tools, forced_tool, tool_result, thinking,
            unicode, cached, counted, models, wrong_key, wrong_model, too_long, batch,
            left,
        ]
    )  # fmt: skip
