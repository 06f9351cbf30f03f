"""A tokenizer whose library gives up: that request ends, and nobody else's."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tokenizers import Regex, pre_tokenizers

from engine import wire
from engine.intake.door import Door
from engine.intake.doorman import Doorman
from engine.intake.grammar_desk import GrammarDesk
from engine.intake.model_folder import Library
from engine.transport import Entry, IntakeQueue
from hosting.engine_client import EngineClient
from tests.engine.intake.conftest import MakeFolder, make_tokenizer
from tests.makers import make_generate

# Each takes more steps than Oniguruma's ten million: of many a's, and of any eight characters
SLOW = {"some texts": r"(?:a|a)*$(?<=b)", "every text": r"(?:.|.|.|.|.|.|.|.)*$(?<=\x00)"}


class ConcludingQueue(IntakeQueue):
    """Ends the loop when as many are refused as are sent."""

    def __init__(self, redis_url: str, closing: threading.Event, num_requests: int) -> None:
        super().__init__(redis_url, name="intake-1")
        self.concluded: dict[str, object] = {}
        self._closing = closing
        self._num_requests = num_requests

    def conclude(self, entry: Entry, event: wire.Refused | wire.Counted) -> None:
        super().conclude(entry, event)
        self.concluded[entry.request_id] = event
        if len(self.concluded) == self._num_requests:
            self._closing.set()


@pytest.mark.parametrize("which", list(SLOW))
def test_a_pattern_that_never_ends_ends_its_own_request_only(
    redis_url: str, make_folder: MakeFolder, which: str
) -> None:
    tokenizer = make_tokenizer()
    slow = pre_tokenizers.Split(Regex(SLOW[which]), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([slow, tokenizer.pre_tokenizer])
    folder: Path = make_folder(tokenizer=tokenizer)
    client, closing = EngineClient(redis_url), threading.Event()
    client.publish_models((wire.ModelSpec(name="slow", path=str(folder)),))
    client.submit(make_generate("one", model="slow", prompt="a" * 30))
    client.submit(make_generate("two", model="gone", prompt="Hi"))
    queue = ConcludingQueue(redis_url, closing, num_requests=2)
    Doorman(queue, Door(Library()), GrammarDesk()).run(closing)
    one, two = queue.concluded["one"], queue.concluded["two"]
    assert isinstance(one, wire.Refused) and one.code == wire.Code.ENGINE_ERROR
    assert isinstance(two, wire.Refused) and two.code == wire.Code.MODEL_NOT_FOUND
