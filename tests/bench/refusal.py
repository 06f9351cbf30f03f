"""How soon a prompt of 110,000 tokens that can never fit is refused, and what the engine notices.

Our whole service over HTTP, its memory limited so that the prompt is too large for it and nothing
else. Tokenizing alone is timed here, on the same text, and taken off. On a shared machine the
processes' CPU time tells more than the clock: both are given.
"""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any

import psutil
from tokenizers import Tokenizer

from tests.bench.options import Options
from tests.bench.prompts import PromptMaker
from tests.bench.report import BenchmarkFailed, Report, Result, milliseconds
from tests.bench.stats import median
from tests.stack import Stack, running_stack
from tests.tiny_models import tiny_model_path

MODEL, NAME = "tiny-qwen3", "bench"
PROMPT_TOKENS, CONTEXT_TOKENS = 110_000, 131_072
MEMORY_LIMIT_GB = "0.1"  # its weights take 5 MB; the prompt's caches alone take 107 MB
NUM_ROUNDS = 7
BEYOND_BAR_MS = 150.0
SERVING = ("web", "intake")
_LONG_CONTEXT = f"""
from hosting.actions.hosted_models import publish_models
from hosting.models import HostedModel
HostedModel.objects.update(context_limit_tokens={CONTEXT_TOKENS})
publish_models()
"""


def run(options: Options) -> Report:
    with running_stack(HEARTH_MEMORY_LIMIT_GB=MEMORY_LIMIT_GB) as stack:
        path = tiny_model_path(MODEL)
        stack.manage("add_model", str(path), "--name", NAME)
        stack.manage("shell", "-c", _LONG_CONTEXT)
        asker = Asker(stack, stack.create_api_key("bench"))
        asker.wait_for_answer()
        rounds = [
            measure(stack, asker, path, number) for number in range(options.rounds or NUM_ROUNDS)
        ]
    found = {name: median([one[name] for one in rounds]) for name in rounds[0]}
    return Report(
        results=[
            milliseconds("refused_after", found["seconds"]),
            milliseconds("tokenizing", found["tokenizing"]),
            milliseconds(
                "beyond_tokenizing", found["seconds"] - found["tokenizing"], bar=BEYOND_BAR_MS
            ),
            milliseconds(
                "cpu_beyond_tokenizing", found["cpu"] - found["tokenizing_cpu"], bar=BEYOND_BAR_MS
            ),
            Result(
                name="engine_tokens_computed",
                value=found["computed"],
                unit="tokens",
                better="lower",
                bar=0,
            ),
        ]
    )


class Asker:
    def __init__(self, stack: Stack, api_key: str) -> None:
        self._stack = stack
        self._headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}

    def ask(self, prompt: str) -> tuple[int, dict[str, Any], float]:
        """Status, body and seconds."""
        body = json.dumps({"model": NAME, "prompt": prompt, "max_tokens": 4})
        connection = http.client.HTTPConnection("127.0.0.1", self._stack.port, timeout=120)
        began = time.perf_counter()
        connection.request("POST", "/v1/completions", body, self._headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        seconds = time.perf_counter() - began
        connection.close()
        return response.status, answer, seconds

    def wait_for_answer(self) -> None:
        status, answer, _ = self.ask("hello")
        if status != 200:
            raise BenchmarkFailed(f"it does not answer at all: {answer}")


def measure(stack: Stack, asker: Asker, path: Path, number: int) -> dict[str, float]:
    prompt = PromptMaker(path).prompt(f"refusal {number}", tokens=PROMPT_TOKENS)
    tokenizing, tokenizing_cpu = _tokenizing(path, prompt)
    computed, cpu = _tokens_generated(stack), _cpu_seconds(stack)
    status, answer, seconds = asker.ask(prompt)
    if status == 200 or answer["error"].get("code") != "does_not_fit":
        raise BenchmarkFailed(f"not refused for memory: {status} {str(answer)[:300]}")
    return {
        "seconds": seconds,
        "cpu": _cpu_seconds(stack) - cpu,
        "tokenizing": tokenizing,
        "tokenizing_cpu": tokenizing_cpu,
        "computed": float(_tokens_generated(stack) - computed),
    }


def _tokenizing(path: Path, prompt: str) -> tuple[float, float]:
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    began, began_cpu = time.perf_counter(), time.process_time()
    tokenizer.encode(prompt, add_special_tokens=False)
    return time.perf_counter() - began, time.process_time() - began_cpu


def _cpu_seconds(stack: Stack) -> float:
    processes = stack.processes()
    times = [psutil.Process(processes[name].pid).cpu_times() for name in SERVING]
    seconds: float = sum(one.user + one.system for one in times)
    return seconds


def _tokens_generated(stack: Stack) -> int:
    """By the engine's own count in /metrics."""
    _, content = stack.get("/metrics")
    lines = content.decode().splitlines()
    found = [line for line in lines if line.startswith("hearth_engine_generated_tokens")]
    if not found:
        raise BenchmarkFailed("/metrics does not tell how many tokens were generated")
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in found))
