"""The closed loop inside a process, with a source that answers by the clockwork."""

from __future__ import annotations

from tests.bench.closed_loop import ClosedLoop, NewTokens, Prompt


class Clockwork:
    """Every step brings every request a token."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._left: dict[int, int] = {}
        self._submitted = 0

    def submit(self, prompt_token_ids: list[int], *, max_tokens: int) -> int:
        key = self._submitted
        self._submitted += 1
        self._left[key] = max_tokens
        self.log.append(f"ask {prompt_token_ids[0]}")
        return key

    def step(self) -> list[NewTokens]:
        self.log.append("step")
        new = []
        for key in list(self._left):
            self._left[key] -= 1
            new.append(NewTokens(key, 1, self._left[key] == 0))
            if self._left[key] == 0:
                del self._left[key]
        return new


def test_a_stream_asks_again_when_its_answer_has_ended() -> None:
    source = Clockwork()
    ClosedLoop(source, [[Prompt([1], 2), Prompt([2], 1)], [Prompt([3], 3)]]).run()
    assert source.log == ["ask 1", "ask 3", "step", "step", "ask 2", "step"]


def test_all_tokens_are_counted_with_their_times() -> None:
    done = ClosedLoop(Clockwork(), [[Prompt([1], 2), Prompt([2], 1)], [Prompt([3], 3)]]).run()
    assert done["tokens"] == 6
    assert len(done["ttfts"]) == 3
    assert len(done["gaps"]) == 3
    assert min(done["ttfts"]) >= 0
    assert done["seconds"] > 0
