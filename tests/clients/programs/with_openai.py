"""The openai package, of either major version: chat, responses, models."""

from __future__ import annotations

from typing import Any

import openai
from cases import QUESTION, TOO_LONG, WEATHER, Service, run

FUNCTION = {
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def client(service: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=service.v1, api_key=service.key, max_retries=0)


def chat(service: Service) -> Any:
    answer = client(service).chat.completions.create(
        model=service.model,
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=200,
    )
    return answer.model_dump(mode="json")


def chat_tool(service: Service) -> Any:
    with client(service).chat.completions.stream(
        model=service.model,
        messages=[{"role": "user", "content": WEATHER}],
        tools=[{"type": "function", "function": FUNCTION}],
        temperature=0,
        max_tokens=200,
    ) as stream:
        return stream.get_final_completion().model_dump(mode="json")


def responses(service: Service) -> Any:
    answer = client(service).responses.create(
        model=service.model, input=QUESTION, temperature=0, max_output_tokens=200
    )
    return answer.model_dump(mode="json", warnings=False) | {"text": answer.output_text}


def responses_streamed(service: Service) -> Any:
    with client(service).responses.stream(
        model=service.model, input=QUESTION, temperature=0, max_output_tokens=200
    ) as stream:
        kinds = [event.type for event in stream]
        answer = stream.get_final_response()
    return {"text": answer.output_text, "kinds": kinds}


def responses_tool(service: Service) -> Any:
    """A call, its result, and what is said of it; the whole output is sent back."""
    asked: list[Any] = [{"role": "user", "content": WEATHER}]
    options: dict[str, Any] = {
        "model": service.model,
        "tools": [{"type": "function", "strict": False, **FUNCTION}],
        "temperature": 0,
        "max_output_tokens": 200,
    }
    with client(service).responses.stream(input=asked, **options) as stream:
        for _ in stream:
            pass
        first = stream.get_final_response()
    calls = [item for item in first.output if item.type == "function_call"]
    said = [item.model_dump(exclude_none=True, warnings=False) for item in first.output]
    results = [
        {"type": "function_call_output", "call_id": one.call_id, "output": "21 degrees, sunny"}
        for one in calls
    ]
    for item in said:
        item.pop("parsed_arguments", None)
    last = client(service).responses.create(input=[*asked, *said, *results], **options)
    return {"calls": [[one.name, one.arguments] for one in calls], "text": last.output_text}


def responses_cut(service: Service) -> Any:
    answer = client(service).responses.create(
        model=service.model, input="Tell me a story.", max_output_tokens=3
    )
    return [answer.status, answer.incomplete_details.reason]


def responses_counted(service: Service) -> Any:
    asked = {"model": service.model, "input": QUESTION}
    spent = client(service).responses.create(**asked, max_output_tokens=1).usage
    counted = client(service).responses.input_tokens.count(**asked)
    return [counted.object, counted.input_tokens, spent and spent.input_tokens]


def models(service: Service) -> Any:
    return [one.id for one in client(service).models.list()]


def wrong_model(service: Service) -> Any:
    return client(service).responses.create(model="gone", input="Hi")


def too_long(service: Service) -> Any:
    return client(service).responses.create(model=service.model, input=TOO_LONG)


if __name__ == "__main__":
    run(
        [
            *(chat, chat_tool, responses, responses_streamed, responses_tool),
            *(responses_cut, responses_counted, models, wrong_model, too_long),
        ]
    )
