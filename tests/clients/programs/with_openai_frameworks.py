"""langchain-openai and pydantic-ai, which stand on the openai package."""

from __future__ import annotations

from typing import Any

from cases import QUESTION, WEATHER, Service, run
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city"""
    return f"21 degrees in {city}"


def _langchain(service: Service, **fields: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model=service.model,
        base_url=service.v1,
        api_key=service.key,
        max_retries=0,
        temperature=0,
        max_tokens=200,
        **fields,
    )


def langchain_chat(service: Service) -> Any:
    answer = _langchain(service).invoke(QUESTION)
    return {"text": answer.text, "usage": answer.usage_metadata}


def langchain_responses(service: Service) -> Any:
    answer = _langchain(service, use_responses_api=True).invoke(QUESTION)
    return {"text": answer.text, "usage": answer.usage_metadata}


def langchain_tool(service: Service) -> Any:
    answer = _langchain(service).bind_tools([get_weather]).invoke(WEATHER)
    return [[call["name"], call["args"]] for call in answer.tool_calls]


def _agent(service: Service, kind: Any, **options: Any) -> Agent:
    provider = OpenAIProvider(base_url=service.v1, api_key=service.key)
    settings = {"temperature": 0.0, "max_tokens": 200}
    return Agent(kind(service.model, provider=provider), model_settings=settings, **options)


def pydantic_chat(service: Service) -> Any:
    return _agent(service, OpenAIChatModel).run_sync(QUESTION).output


def pydantic_responses(service: Service) -> Any:
    return _agent(service, OpenAIResponsesModel).run_sync(QUESTION).output


if __name__ == "__main__":
    run([langchain_chat, langchain_responses, langchain_tool, pydantic_chat, pydantic_responses])
