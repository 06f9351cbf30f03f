"""The web process does not look through what it imported for garbage while it serves."""

from __future__ import annotations

import gc
import warnings

import pytest
from daphne.server import Server

from hosting.daphne_server import LimitedServer


def test_what_was_imported_is_left_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():  # about what other tests left in cycles
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    frozen: list[int] = []
    monkeypatch.setattr(Server, "run", lambda _: frozen.append(gc.get_freeze_count()))
    try:
        LimitedServer(application=None, endpoints=["tcp:0"]).run()
        assert frozen[0] > 10_000 and len(gc.get_objects()) < frozen[0] / 10
    finally:
        gc.unfreeze()
