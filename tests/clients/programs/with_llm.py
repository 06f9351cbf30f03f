"""llm, with the model in its list of other people's OpenAI-like ones."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from cases import QUESTION, Service, run

LISTED = """\
- model_id: hearth
  model_name: {model}
  api_base: {url}
  api_key_name: hearth
  completion: {is_completion}
"""


def asked(service: Service, *, is_completion: bool, stream: bool, prompt: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LLM_USER_PATH"] = folder
        listed = LISTED.format(
            model=service.model, url=service.v1, is_completion=str(is_completion).lower()
        )
        Path(folder, "extra-openai-models.yaml").write_text(listed)
        import llm

        model = llm.get_model("hearth")
        answer = model.prompt(prompt, stream=stream, key=service.key, temperature=0, max_tokens=60)
        usage = answer.usage()
        return {"text": answer.text(), "usage": [usage.input, usage.output]}


def text(service: Service) -> Any:
    return asked(service, is_completion=False, stream=False, prompt=QUESTION)


def streamed(service: Service) -> Any:
    return asked(service, is_completion=False, stream=True, prompt=QUESTION)


def completed(service: Service) -> Any:
    return asked(service, is_completion=True, stream=True, prompt="Monday, Tuesday,")


if __name__ == "__main__":
    run([text, streamed, completed])
