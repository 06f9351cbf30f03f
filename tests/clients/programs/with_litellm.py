"""litellm, through each dialect that it speaks."""

from __future__ import annotations

import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would look for one on the network

import litellm
from cases import QUESTION, WEATHER, Service, run

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def asked(service: Service, dialect: str, text: str, **fields: Any) -> Any:
    is_anthropic = dialect == "anthropic"
    return litellm.completion(
        model=f"{dialect}/{service.model}",
        api_base=service.url if is_anthropic else service.v1,
        api_key=service.key,
        messages=[{"role": "user", "content": text}],
        max_retries=0,
        **{"max_tokens": 200, "temperature": 0.0, **fields},
    )


def openai_text(service: Service) -> Any:
    return asked(service, "openai", QUESTION).model_dump(mode="json")


def anthropic_text(service: Service) -> Any:
    return asked(service, "anthropic", QUESTION).model_dump(mode="json")


def openai_streamed(service: Service) -> Any:
    return _put_together(asked(service, "openai", QUESTION, **_STREAM))


def anthropic_streamed(service: Service) -> Any:
    return _put_together(asked(service, "anthropic", QUESTION, **_STREAM))


def openai_tool(service: Service) -> Any:
    return _put_together(asked(service, "openai", WEATHER, tools=[TOOL], **_STREAM))


def anthropic_tool(service: Service) -> Any:
    return _put_together(asked(service, "anthropic", WEATHER, tools=[TOOL], **_STREAM))


def anthropic_thinking(service: Service) -> Any:
    think = {"type": "enabled", "budget_tokens": 1024}
    # litellm goes by its list of models, and ours is not in it
    allowed = {"allowed_openai_params": ["thinking"], "max_tokens": 2000}
    return asked(service, "anthropic", QUESTION, thinking=think, **allowed).model_dump(mode="json")


def completed(service: Service) -> Any:
    return litellm.text_completion(
        model=f"text-completion-openai/{service.model}",
        api_base=service.v1,
        api_key=service.key,
        prompt="Monday, Tuesday,",
        max_tokens=8,
        temperature=0.0,
    ).model_dump(mode="json")


def wrong_key(service: Service) -> Any:
    wrong = Service(url=service.url, key="sk-wrong", model=service.model)
    return asked(wrong, "anthropic", "Hi")


def wrong_model(service: Service) -> Any:
    wrong = Service(url=service.url, key=service.key, model="gone")
    return asked(wrong, "anthropic", "Hi")


def too_long(service: Service) -> Any:
    return asked(service, "openai", "word " * 20_000)


_STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def _put_together(stream: Any) -> Any:
    return litellm.stream_chunk_builder(list(stream)).model_dump(mode="json")


if __name__ == "__main__":
    run(
        [
            openai_text, anthropic_text, openai_streamed, anthropic_streamed, openai_tool,
            anthropic_tool, anthropic_thinking, completed, wrong_key, wrong_model, too_long,
        ]
    )  # fmt: skip
