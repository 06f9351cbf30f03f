"""Cache folders of engines that never come again go; each of the others is one engine's own."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from engine.cache.folders import (
    KEPT_SECONDS,
    FolderKeeper,
    FolderLock,
    FolderTaken,
    delete_abandoned,
)
from tests.waiting import wait_until


def make_folder(directory: Path, name: str, *, unused_seconds: float) -> Path:
    """As an engine left it."""
    folder = directory / name
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "record").write_text("a secret")
    FolderLock(folder).release()
    then = time.time() - unused_seconds
    os.utime(directory / f"{name}~lock", (then, then))
    return folder


def test_what_nobody_has_used_for_a_week_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    long_ago = KEPT_SECONDS + 60
    gone = make_folder(tmp_path, "gone", unused_seconds=long_ago)
    lately = make_folder(tmp_path, "lately", unused_seconds=KEPT_SECONDS - 60)
    living = make_folder(tmp_path, "living", unused_seconds=long_ago)
    lock = FolderLock(living)
    delete_abandoned(tmp_path)
    assert not gone.exists() and not list(tmp_path.glob("*~gone"))
    assert lately.exists() and living.exists()
    lock.release()


def test_a_folder_without_a_lock_begins_to_count_when_it_is_seen(tmp_path: Path) -> None:
    (tmp_path / "earlier").mkdir()
    delete_abandoned(tmp_path)
    assert (tmp_path / "earlier").exists()
    then = time.time() - KEPT_SECONDS - 60
    os.utime(tmp_path / "earlier~lock", (then, then))
    delete_abandoned(tmp_path)
    assert not (tmp_path / "earlier").exists()


def test_what_was_half_deleted_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "gone~gone" / "a").mkdir(parents=True)
    delete_abandoned(tmp_path)
    assert not (tmp_path / "gone~gone").exists()


def test_notes_and_locks_go_with_their_engine_s_name_and_no_others(tmp_path: Path) -> None:
    cache, at_work, estimates = (tmp_path / name for name in ("cache", "at_work", "estimates"))
    make_folder(cache, "pod", unused_seconds=KEPT_SECONDS + 60).joinpath("a", "record").unlink()
    cache.joinpath("pod", "a").rmdir()
    cache.joinpath("pod").rmdir()  # as of one that keeps nothing on disk
    make_folder(cache, "pod.2", unused_seconds=KEPT_SECONDS - 60)
    at_work.mkdir()
    estimates.mkdir()
    for name in ("pod", "pod.2"):
        for file in (at_work / f"{name}.note", estimates / f"{name}.json"):
            file.write_text("of an engine")
    delete_abandoned(cache, notes=(at_work, estimates))
    assert sorted(one.name for one in cache.iterdir()) == ["pod.2", "pod.2~lock"]
    assert [one.name for one in at_work.iterdir()] == ["pod.2.note"]
    assert [one.name for one in estimates.iterdir()] == ["pod.2.json"]


def test_a_lock_that_was_deleted_while_it_was_opened_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a second engine could have the folder."""
    flock, deleted = fcntl.flock, [tmp_path / "e~lock"]

    def flock_late(descriptor: int, how: int) -> None:
        if deleted:
            deleted.pop().unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock_late)
    lock = FolderLock(tmp_path / "e")
    with pytest.raises(FolderTaken):
        FolderLock(tmp_path / "e")
    lock.release()


def test_a_folder_has_one_engine_at_a_time(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "e")
    with pytest.raises(FolderTaken):
        FolderLock(tmp_path / "e")
    lock.release()
    FolderLock(tmp_path / "e").release()


def test_while_an_engine_lives_its_folder_counts_as_used(tmp_path: Path) -> None:
    own = make_folder(tmp_path, "own", unused_seconds=KEPT_SECONDS + 60)
    gone = make_folder(tmp_path, "gone", unused_seconds=KEPT_SECONDS + 60)
    lock = FolderLock(own)
    keeper = FolderKeeper(tmp_path, lock)
    wait_until(lambda: not gone.exists())
    assert lock.unused_seconds() < 60
    keeper.close(wait_seconds=10)
    lock.release()
