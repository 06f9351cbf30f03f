"""Eight rows of our engine, some of them held to a schema, in a process of its own.

`python -m tests.bench.grammar_rows MODEL_FOLDER`; a job is {"number", "held", "schema",
"max_tokens"}, the answer {"texts", "tokens", "seconds", "cpu_seconds"}, the first two by row.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from engine import wire
from engine.core.pacing import TimeLedger
from engine.handle import ModelHandle
from engine.metrics import Vitals
from engine.model import direct_step
from engine.model.loader import LoadedModel, load
from engine.model.runner import Runner
from engine.shelf import ModelVoice
from tests.engine.model.rig import Run
from tests.fakes import FakeMemory, make_work

NUM_ROWS = 8
PROMPT_TOKENS = 64


def main(folder: str) -> None:
    *_, last = load(Path(folder), casts_to_float32=True)
    assert last.loaded is not None
    handle = make_handle(last.loaded)
    for line in sys.stdin:
        print(json.dumps(_do(handle, json.loads(line))), flush=True)


def make_handle(loaded: LoadedModel) -> ModelHandle:
    voice = ModelVoice(loaded.tokenizer)
    return ModelHandle(
        wire.ModelSpec(name="bench", path="", max_rows=NUM_ROWS),
        runner=Runner(
            loaded.model, decode=direct_step.found(loaded.model), token_bytes=voice.token_bytes
        ),
        voice=voice,
        ledger=TimeLedger(),
        vitals=Vitals(engine_name="bench", memory=FakeMemory()),
        is_batchable=loaded.is_batchable,
    )


def _do(handle: ModelHandle, job: dict[str, Any]) -> dict[str, Any]:
    rows = Run(handle)
    for row in range(NUM_ROWS):
        rows.add(_work(job, row))
    started_at, cpu_started_at = time.perf_counter(), time.process_time()
    rows.finish()
    return {
        "seconds": time.perf_counter() - started_at,
        "cpu_seconds": time.process_time() - cpu_started_at,
        "texts": [_text(rows, str(row)) for row in range(NUM_ROWS)],
        "tokens": [rows.tokens(str(row)) for row in range(NUM_ROWS)],
    }


def _work(job: dict[str, Any], row: int) -> wire.Work:
    start = 50 + 8 * job["number"] + row
    grammar = wire.Grammar(
        kind=wire.GrammarKind.JSON_SCHEMA, param="schema", source=json.dumps(job["schema"])
    )
    return make_work(
        str(row),
        prompt=range(start, start + PROMPT_TOKENS),
        max_tokens=job["max_tokens"],
        sampling=wire.Sampling(seed=row, temperature=0.8),
        grammar=grammar if row < job["held"] else None,
        has_thought=True,
    )


def _text(rows: Run, request_id: str) -> str:
    deltas = (one for one in rows.events[request_id] if isinstance(one, wire.Delta))
    return "".join(delta.text for delta in deltas)


if __name__ == "__main__":
    main(sys.argv[1])
