"""What can never fit is refused with numbers, what fits is let in as long as there is room for."""

from __future__ import annotations

import pytest

from engine import wire
from engine.intake.memory_check import MemoryCheck
from engine.intake.refusal import Refusal
from engine.sizing.words import allowed_size, needed_size
from tests.makers import make_generate, make_status, make_work

MIB = 1024**2
NEEDS = wire.RowNeeds(fixed_bytes=10 * MIB, token_bytes=MIB // 10)


def beat(room_mib: int, *others: wire.ModelMemory, engine: str = "engine-1") -> wire.EngineStatus:
    """Weights and pinned models take what is not room."""
    pinned_bytes = sum(one.weight_bytes for one in others)
    demo = wire.ModelMemory(
        name="demo",
        weight_bytes=(1000 - room_mib) * MIB - pinned_bytes,
        room_bytes=room_mib * MIB,
        needs=NEEDS,
    )
    memory = wire.MemoryStatus(limit_bytes=1000 * MIB, models=(demo, *others))
    return make_status(engine, memory=memory)


def work_of(prompt_tokens: int, max_tokens: int = 1000) -> wire.Work:
    return make_work(make_generate("a", max_tokens=max_tokens), num_prompt_tokens=prompt_tokens)


def refusal_of(check: MemoryCheck, work: wire.Work) -> wire.Refused:
    with pytest.raises(Refusal) as caught:
        check.check(work, param="messages")
    return caught.value.refused


def test_a_request_that_fits_is_left_alone() -> None:
    work = work_of(1000)
    assert MemoryCheck(lambda: [beat(900)]).check(work, param="messages") == work


def test_an_answer_is_no_longer_than_there_is_room_for() -> None:
    checked = MemoryCheck(lambda: [beat(190)]).check(work_of(1000), param="messages")
    assert checked.max_tokens == pytest.approx(800, abs=5)


def test_a_prompt_that_never_fits_is_refused_with_what_would_help() -> None:
    refused = refusal_of(MemoryCheck(lambda: [beat(190)]), work_of(110_000))
    assert refused.code is wire.Code.DOES_NOT_FIT and refused.param == "messages"
    shorter = refused.numbers["shorter_by_tokens"]
    fits = work_of(110_000 - int(shorter))
    assert MemoryCheck(lambda: [beat(190)]).check(fits, param="messages").max_tokens >= 256
    assert refused.numbers["needed_bytes"] > refused.numbers["limit_bytes"] == 1000 * MIB
    assert f"{shorter:.0f} tokens" in refused.detail


def test_a_smaller_max_tokens_is_proposed_where_it_helps() -> None:
    refused = refusal_of(MemoryCheck(lambda: [beat(190)]), work_of(1700))
    most = int(refused.numbers["max_tokens"])
    assert 90 <= most <= 110 and f"at most {most} output tokens" in refused.detail
    assert MemoryCheck(lambda: [beat(190)]).check(work_of(1700, most), param="messages")


def test_the_pinned_model_in_the_way_is_named() -> None:
    pinned = wire.ModelMemory(name="big", weight_bytes=700 * MIB, room_bytes=0, is_pinned=True)
    check = MemoryCheck(lambda: [beat(190, pinned)])
    assert "'big'" in refusal_of(check, work_of(5_000)).detail
    assert "'big'" not in refusal_of(check, work_of(50_000)).detail


def test_one_engine_with_room_is_enough() -> None:
    work = work_of(5_000)
    check = MemoryCheck(lambda: [beat(50), beat(900, engine="engine-2")])
    assert check.check(work, param="messages") == work


def test_where_nobody_says_anything_nothing_is_refused() -> None:
    work = work_of(5_000)
    assert MemoryCheck(lambda: [make_status()]).check(work, param="messages") == work


def vector_work(*lengths: int) -> wire.VectorWork:
    return wire.VectorWork(
        request_id="v",
        model="demo",
        tenant="user:1",
        priority=wire.Priority.API,
        submitted_at=0.0,
        accepted_at=0.0,
        inputs=tuple((1,) * length for length in lengths),
    )


def test_texts_for_vectors_need_room_one_by_one() -> None:
    work = vector_work(1500, 10, 1500)
    assert MemoryCheck(lambda: [beat(190)]).check_vectors(work, param="input") == work
    assert MemoryCheck(list).check_vectors(vector_work(10**6), param="input")


def test_a_text_that_never_fits_is_named() -> None:
    pinned = wire.ModelMemory(
        name="large", weight_bytes=500 * MIB, room_bytes=0, needs=NEEDS, is_pinned=True
    )
    check = MemoryCheck(lambda: [beat(190, pinned), beat(100)])
    with pytest.raises(Refusal) as caught:
        check.check_vectors(vector_work(10, 2000), param="documents")
    refused = caught.value.refused
    assert (refused.code, refused.param) == (wire.Code.DOES_NOT_FIT, "documents[1]")
    assert refused.numbers["shorter_by_tokens"] == pytest.approx(200, abs=2)
    assert refused.numbers["needed_bytes"] > refused.numbers["limit_bytes"] == 1000 * MIB
    assert "'large'" in refused.detail and "output" not in refused.detail


def test_a_row_of_exactly_the_room_fits_and_one_token_more_does_not() -> None:
    room_bytes = NEEDS.bytes_for(1700)
    demo = wire.ModelMemory(name="demo", weight_bytes=100 * MIB, room_bytes=room_bytes, needs=NEEDS)
    limit_bytes = demo.weight_bytes + room_bytes
    memory = wire.MemoryStatus(limit_bytes=limit_bytes, models=(demo,))
    check = MemoryCheck(lambda: [make_status(memory=memory)])
    exact = work_of(1690, 10)
    assert check.check(exact, param="messages") == exact
    for work in (work_of(1691, 10), work_of(1690, 11)):
        numbers = refusal_of(check, work).numbers
        assert numbers["needed_bytes"] - numbers["limit_bytes"] == NEEDS.token_bytes
        assert (numbers["limit_bytes"], numbers["shorter_by_tokens"]) == (limit_bytes, 1)
        assert numbers["max_tokens"] == work.max_tokens - 1


def test_a_need_that_passes_a_limit_by_little_reads_as_more() -> None:
    assert (needed_size(15 * 1024**3 + 1), allowed_size(15 * 1024**3)) == ("15.01 GiB", "15.00 GiB")
    assert (needed_size(9 * MIB + 1), allowed_size(9 * MIB)) == ("9.1 MiB", "9.0 MiB")


def test_the_ceiling_of_a_model_is_the_limit_that_is_told() -> None:
    demo = wire.ModelMemory(name="demo", weight_bytes=100 * MIB, room_bytes=50 * MIB, needs=NEEDS)
    memory = wire.MemoryStatus(limit_bytes=9000 * MIB, models=(demo,))
    refused = refusal_of(MemoryCheck(lambda: [make_status(memory=memory)]), work_of(5_000))
    assert refused.numbers["limit_bytes"] == 150 * MIB
    assert "the limit is 150.0 MiB" in refused.detail
