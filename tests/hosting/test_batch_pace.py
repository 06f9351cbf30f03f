"""How soon a batch looks again: sooner while its lines move than while it waits for them."""

from __future__ import annotations

import threading

import pytest

from accounts.models import User
from hosting.actions.settling import settle_generation
from hosting.batches.runner import Runner
from hosting.models import BatchLine, Generation
from tests.hosting.scripted_engine import ScriptedEngine
from tests.hosting.test_batches import data_folder, given, line

__all__ = ["data_folder"]

pytestmark = pytest.mark.usefixtures("model")


class Pauses(threading.Event):
    """Settles between turns what has ended, and keeps how long each pause would have been, with
    whether lines were under way."""

    def __init__(self, *, settles: bool) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._settles = settles

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        if self._settles:
            settle_all()
        elif len(self.seconds) == 4:
            self.set()
        return self.is_set()


def settle_all() -> None:
    while open_ones := list(Generation.objects.open()):
        for one in open_ones:
            settle_generation(str(one.pk))


def test_short_requests_do_not_wait_half_a_second_for_their_turn(
    person: User, api_key: str, engine: ScriptedEngine
) -> None:
    given(person, api_key, [line(str(number)) for number in range(12)])
    pauses = Pauses(settles=True)
    Runner().run(pauses)
    assert not Generation.objects.open().exists()
    assert len(pauses.seconds) >= 3
    assert sum(pauses.seconds) < 1.5


def test_what_is_waited_for_is_not_asked_for_ten_times_a_second(
    person: User, api_key: str, engine: ScriptedEngine
) -> None:
    given(person, api_key, [line("1")])
    pauses = Pauses(settles=False)
    Runner().run(pauses)
    assert BatchLine.objects.exists()
    assert pauses.seconds[-2:] == [0.5, 0.5]
