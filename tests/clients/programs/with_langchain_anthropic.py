"""langchain-anthropic."""

from __future__ import annotations

from typing import Any

from cases import QUESTION, WEATHER, Service, run
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool as as_tool


@as_tool
def get_weather(city: str) -> str:
    """Get the weather in a city"""
    return city


def chat(service: Service, **options: Any) -> ChatAnthropic:
    return ChatAnthropic(
        model=service.model,
        api_key=service.key,
        base_url=service.url,
        max_retries=0,
        max_tokens=200,
        **options,
    )


def text(service: Service) -> Any:
    answer = chat(service, temperature=0.0).invoke(QUESTION)
    return {"text": answer.text, "usage": answer.usage_metadata, "id": answer.response_metadata}


def streamed(service: Service) -> Any:
    whole: Any = None
    for chunk in chat(service, temperature=0.0).stream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    return {"text": whole.text, "usage": whole.usage_metadata}


def tool_and_result(service: Service) -> Any:
    bound = chat(service, temperature=0.0).bind_tools([get_weather])
    called = bound.invoke(WEATHER)
    result = ToolMessage(
        '{"temperature": 21, "condition": "sunny"}', tool_call_id=called.tool_calls[0]["id"]
    )
    answer = bound.invoke([HumanMessage(WEATHER), called, result])
    return {"calls": called.tool_calls, "text": answer.text}


def wrong_model(service: Service) -> Any:
    return ChatAnthropic(
        model="gone", api_key=service.key, base_url=service.url, max_retries=0
    ).invoke("Hi")


if __name__ == "__main__":
    run([text, streamed, tool_and_result, wrong_model])
