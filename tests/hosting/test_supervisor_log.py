"""HEARTH_LOG_FORMAT=json: every line of the one log is JSON, whoever wrote it and however."""

from __future__ import annotations

import io
import json
from pathlib import Path

from hosting.supervisor.log import CombinedLog
from tests.hosting.redis_alone import redis_alone


def test_every_line_is_json(tmp_path: Path) -> None:
    with redis_alone(tmp_path, HEARTH_LOG_FORMAT="json") as running:
        printed = running.output().splitlines()
    kept = (tmp_path / "logs" / "hearth.log").read_text().splitlines()
    assert {json.loads(line)["process"] for line in printed} == {"up", "redis"}
    assert {json.loads(line)["process"] for line in kept} == {"up", "redis"}


def test_what_is_json_already_stays_one_object(tmp_path: Path) -> None:
    terminal = io.StringIO()
    log = CombinedLog(path=tmp_path / "hearth.log", terminal=terminal, is_json=True)
    log.write("web", '{"at": "now", "level": "INFO", "message": "asked"}')
    log.write("engine", "loaded")
    log.close()
    web, engine = map(json.loads, terminal.getvalue().splitlines())
    assert web == {"process": "web", "at": "now", "level": "INFO", "message": "asked"}
    assert (engine["process"], engine["message"]) == ("engine", "loaded")
