"""The prefix cache as settings make it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.at_work import AtWork, at_work_file
from engine.cache.folders import KEPT_SECONDS
from engine.cache.report import cache_status
from engine.config import EngineConfig
from engine.estimates import estimates_file
from engine.prefixes import Prefixes
from tests.engine.cache.toys import arrays_of, make_rows, record_files
from tests.waiting import wait_until

GIB = 2**30


def config(folder: Path, *, name: str = "engine-1", **settings: int) -> EngineConfig:
    return EngineConfig(name=name, redis_url="", data_dir=folder, **settings)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """The folder of an engine that has kept something."""
    with closing(Prefixes(config(tmp_path), ceiling_bytes=GIB)) as prefixes:
        disk = prefixes.cache.io.disk  # type: ignore[union-attr]
        (row,) = make_rows(1)
        assert disk.save(row, arrays_of(row)).is_persisted
    yield tmp_path / "cache" / "engine-1"


def test_what_was_kept_is_known_after_a_restart(kept: Path, tmp_path: Path) -> None:
    with closing(Prefixes(config(tmp_path), ceiling_bytes=GIB)) as prefixes:
        assert len([*prefixes.cache.nodes]) == 1


@pytest.mark.parametrize("setting", ["cache_disk_bytes", "cache_memory_bytes"])
def test_a_tier_that_is_off_keeps_nothing_that_it_kept(
    kept: Path, tmp_path: Path, setting: str
) -> None:
    assert record_files(kept)
    with closing(Prefixes(config(tmp_path, **{setting: 0}), ceiling_bytes=GIB)) as prefixes:
        assert cache_status(prefixes.cache).disk is None
    assert not kept.exists()


def test_a_disk_without_room_has_a_tier_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with closing(Prefixes(config(tmp_path), ceiling_bytes=GIB)) as prefixes:
        disk = prefixes.cache.io.disk  # type: ignore[union-attr]
        (row,) = make_rows(1)
        assert not disk.save(row, arrays_of(row)).is_persisted
        told = cache_status(prefixes.cache).disk
        assert told is not None and told.hindrance


def test_what_an_engine_noted_whose_name_never_came_again_is_deleted(
    kept: Path, tmp_path: Path
) -> None:
    own = config(tmp_path)
    AtWork(at_work_file(own))
    estimates_file(own).parent.mkdir()
    estimates_file(own).write_text("{}")
    then = kept.stat().st_mtime - KEPT_SECONDS - 60
    os.utime(kept.with_name("engine-1~lock"), (then, then))
    with closing(Prefixes(config(tmp_path, name="engine-2"), ceiling_bytes=GIB)):
        wait_until(lambda: not at_work_file(own).exists() and not estimates_file(own).exists())


@pytest.mark.parametrize("settings", [{}, {"cache_disk_bytes": 0}])
def test_what_an_engine_kept_whose_name_never_came_again_is_deleted(
    kept: Path, tmp_path: Path, settings: dict[str, int]
) -> None:
    then = kept.stat().st_mtime - KEPT_SECONDS - 60
    os.utime(kept.with_name("engine-1~lock"), (then, then))
    other = config(tmp_path, name="engine-2", **settings)
    with closing(Prefixes(other, ceiling_bytes=GIB)):
        wait_until(lambda: not kept.exists())


def test_a_second_engine_on_the_same_folder_does_without_the_disk(
    kept: Path, tmp_path: Path
) -> None:
    with closing(Prefixes(config(tmp_path), ceiling_bytes=GIB)) as first:
        with closing(Prefixes(config(tmp_path), ceiling_bytes=GIB)) as second:
            assert second.cache.io is None and len([*second.cache.nodes]) == 0
        assert len([*first.cache.nodes]) == 1
    with closing(Prefixes(config(tmp_path), ceiling_bytes=GIB)) as again:
        assert len([*again.cache.nodes]) == 1
