"""Runs a client's cases one after another; what each returns or raises is printed as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

QUESTION = "What is 17 + 25?"
WEATHER = "What is the weather in Paris?"
TWO_CITIES = "What is the weather in Paris and in Rome?"
UNICODE = "Répète: 你好 🔥"
TOO_LONG = "word " * 20_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Where the service is, as the person's page says it."""

    url: str
    key: str
    model: str

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"


def run(cases: list[Callable[[Service], Any]]) -> None:
    service = Service(
        url=os.environ["HEARTH_URL"],
        key=os.environ["HEARTH_KEY"],
        model=os.environ["HEARTH_MODEL"],
    )
    results = {case.__name__: _outcome(case, service) for case in cases}
    print(json.dumps(results))


def _outcome(case: Callable[[Service], Any], service: Service) -> Any:
    try:
        return case(service)
    except Exception as error:  # whatever a package raises is what the test wants to see
        return {
            "raised": [one.__name__ for one in type(error).__mro__],
            "status": getattr(error, "status_code", None),
            "message": str(error),
        }
