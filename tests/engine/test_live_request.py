"""One request of an engine that puts it off and takes it up again."""

from __future__ import annotations

from engine import wire
from engine.core.delivery import Delivery
from engine.core.step import Drawn
from engine.live_request import LiveRequest
from tests.fakes import FakeTextStream, make_work


def live(delivery: Delivery) -> LiveRequest:
    text = FakeTextStream()
    return LiveRequest(delivery, text, end_token_ids=(), arrived_at=0.0, load_seconds=0.0)


def draw(one: LiveRequest, token_id: int) -> list[wire.Delta]:
    logprob = wire.TokenLogprob(token_id=token_id, text=str(token_id), logprob=-1.0)
    drawn = Drawn(row_id=1, token_id=token_id, logprobs=wire.PositionLogprobs(token=logprob))
    one.sequence.take(token_id)
    return [event for event in one.add(drawn, now=1.0) if isinstance(event, wire.Delta)]


def test_what_is_put_off_while_text_is_held_back_tells_all_logprobs_once() -> None:
    """The text of 1 2 3 could become the stop string until 5 is drawn."""
    token_ids = [9, 1, 2, 3, 5]
    for cut in range(len(token_ids)):
        work = make_work("r", stop=("1 2 3 4 ",))
        first = live(Delivery(work=work, fence=1, attempt=1, next_seq=0))
        deltas = [delta for token_id in token_ids[:cut] for delta in draw(first, token_id)]
        again = first.put_off()
        second = live(again)
        rest = token_ids[len(again.delivered_token_ids) :]
        deltas += [delta for token_id in rest for delta in draw(second, token_id)]
        assert [one for delta in deltas for one in delta.token_ids] == token_ids
        told = [one.token.token_id for delta in deltas for one in delta.logprobs]
        assert told == token_ids, cut
