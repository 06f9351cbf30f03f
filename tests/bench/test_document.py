"""Figures in a document: replaced where they stand, appended where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.document import record

MACHINE = {
    **{"cpu": "abacus", "cores": 2, "python": "3.11", "mlx": "1", "mlx_lm": "2"},
    **{"commit": "abc", "load": 0.1},
}


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "benchmarks.md"
    path.write_text("# Benchmarks\n\nHow they are made.\n")
    return path


def test_new_figures_are_appended(document: Path) -> None:
    record(document, "victim", ["| gap |"], MACHINE)
    text = document.read_text()
    assert text.startswith("# Benchmarks\n\nHow they are made.\n\n<!-- begin victim -->")
    assert "### victim" in text and "| gap |" in text and "abacus, 2 cores" in text


def test_a_second_run_replaces_its_own_figures_only(document: Path) -> None:
    record(document, "victim", ["| old |"], MACHINE)
    record(document, "spike", ["| spike |"], MACHINE)
    record(document, "victim", ["| new |"], MACHINE)
    text = document.read_text()
    assert "| old |" not in text
    assert text.index("| new |") < text.index("| spike |")
    assert text.count("### victim") == 1
