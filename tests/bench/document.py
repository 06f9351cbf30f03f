"""Keeps each benchmark's last figures in a Markdown file, between a pair of comments of its own."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any


def record(document: Path, bench: str, tables: list[str], machine: dict[str, Any]) -> None:
    """Replace what the document has of this benchmark, or append it."""
    begin, end = f"<!-- begin {bench} -->", f"<!-- end {bench} -->"
    section = "\n\n".join([f"{begin}\n### {bench}", _machine_line(machine), *tables, end])
    text = document.read_text()
    before, found, rest = text.partition(begin)
    if found:
        _, _, after = rest.partition(end)
        document.write_text(f"{before}{section}{after}")
    else:
        document.write_text(f"{text.rstrip()}\n\n{section}\n")


def _machine_line(machine: dict[str, Any]) -> str:
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"{day}, {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, "
        f"mlx {machine['mlx']}, mlx-lm {machine['mlx_lm']}, commit {machine['commit']}; "
        f"load before the run {machine['load']}."
    )
