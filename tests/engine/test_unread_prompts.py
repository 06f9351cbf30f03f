"""Nobody pays for what was not begun."""

from __future__ import annotations

import pytest

from engine import wire
from tests.engine.worker_rig import Engine, spec


@pytest.mark.parametrize("num_turns", [2, 12])
def test_nobody_pays_for_a_prompt_that_nobody_began_to_read(num_turns: int) -> None:
    """It waits for its model, or for a row."""
    engine = Engine(spec("fake", max_rows=1))
    engine.ask("before", max_tokens=50)
    engine.ask("a")
    engine.turn(num_turns)
    engine.transport.send(wire.Cancel(request_id="a"))
    engine.turn()
    end = engine.transport.ends["a"]
    assert isinstance(end, wire.Finished) and end.usage == wire.Usage(prompt_tokens=0)
