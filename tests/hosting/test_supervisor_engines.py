"""Several engines on one machine: their names, and what each has of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from hosting.supervisor.engines import Seat, find_seats
from tests.hosting.test_supervisor_start import parts_of


def names(gpus: list[str] | None = None, **environ: str) -> list[str]:
    return [seat.name for seat in find_seats(environ, gpus=gpus or [])]


def test_without_a_word_there_is_one_that_has_all() -> None:
    assert find_seats({}, gpus=["0", "1"]) == [Seat(name="engine-1")]
    assert Seat(name="engine-1").environment == {}
    assert names(HEARTH_ENGINE_NAME="studio") == ["studio"]


def test_so_many_are_counted_and_share_the_memory() -> None:
    seats = find_seats({"HEARTH_ENGINES": "4"}, gpus=[])
    assert [seat.name for seat in seats] == ["engine-1", "engine-2", "engine-3", "engine-4"]
    assert seats[0].environment == {"HEARTH_MEMORY_SHARE": "0.2500"}


def test_each_has_a_gpu_of_its_own_while_there_are_enough() -> None:
    seats = find_seats({"HEARTH_ENGINES": "gpus"}, gpus=["4", "7"])
    assert [seat.environment for seat in seats] == [
        {"CUDA_VISIBLE_DEVICES": "4"},
        {"CUDA_VISIBLE_DEVICES": "7"},
    ]
    crowded = find_seats({"HEARTH_ENGINES": "3"}, gpus=["0", "1"])
    assert [seat.gpu for seat in crowded] == ["0", "1", "0"]
    assert [seat.num_sharing for seat in crowded] == [2, 1, 2]


def test_names_are_as_told() -> None:
    assert names(HEARTH_ENGINES="left, right") == ["left", "right"]
    assert names(HEARTH_ENGINES="2", HEARTH_ENGINE_NAME="pod") == ["pod-1", "pod-2"]
    assert names(HEARTH_ENGINES="1", HEARTH_ENGINE_NAME="pod") == ["pod"]


@pytest.mark.parametrize("told", ["0", "65", "gpus", "a,a"])
def test_what_cannot_be_is_told(told: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="HEARTH_ENGINES"):
        names(HEARTH_ENGINES=told)


def test_each_engine_is_a_part_of_its_own(tmp_path: Path) -> None:
    seats = find_seats({"HEARTH_ENGINES": "2"}, gpus=["0", "1"])
    parts = [part for part in parts_of(["engine", "web"], tmp_path, seats=seats) if part.engine]
    assert [part.name for part in parts] == ["engine-1", "engine-2"]
    assert [part.command[-1] for part in parts] == ["engine-1", "engine-2"]
    assert [part.environment["CUDA_VISIBLE_DEVICES"] for part in parts] == ["0", "1"]
