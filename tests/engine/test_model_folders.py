"""A model's folder may lie elsewhere on another machine, or come later."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import wire
from engine.model_folders import ModelFolders
from tests.engine.worker_rig import Engine, spec


def make_model(folder: Path) -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return str(folder)


@pytest.mark.parametrize("name", ["qwen", "Qwen3-4B-4bit"])
def test_it_is_found_by_its_name_and_by_its_folders(tmp_path: Path, name: str) -> None:
    found = make_model(tmp_path / "models" / name)
    folders = ModelFolders([tmp_path / "none", tmp_path / "models"])
    registered = spec("qwen", path="/elsewhere/Qwen3-4B-4bit")
    assert folders.locate(registered) == wire.replace(registered, path=found)


def test_where_it_is_registered_it_counts_first(tmp_path: Path) -> None:
    make_model(tmp_path / "models" / "qwen")
    registered = spec("qwen", path=make_model(tmp_path / "own"))
    assert ModelFolders([tmp_path / "models"]).locate(registered) == registered


def test_where_there_is_none_its_registered_path_is_told() -> None:
    registered = spec("qwen", path="/elsewhere/qwen")
    assert ModelFolders().locate(registered) == registered


def test_a_folder_that_comes_later_is_found_though_nobody_asks(tmp_path: Path) -> None:
    engine = Engine(spec("late", path="unreadable"), folders=ModelFolders([tmp_path]))
    engine.turn()
    assert [one.state for one in engine.pool.statuses()] == ["failed"]
    make_model(tmp_path / "late")
    engine.clock.now += 11
    engine.turn()
    assert engine.pool.statuses() == ()
    assert [memory.name for memory in engine.pool.memories()] == ["late"]
    engine.ask("a", model="late", max_tokens=2)
    engine.run("a")
    assert engine.kinds("a")[-1] == "Finished"
