"""Recorded bytes into answers: both kinds of HTTP body, frames cut anywhere, ends of every kind."""

from __future__ import annotations

import json

from tests.bench.answers import Answer, read_answer
from tests.bench.exchange import Recording

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\nContent-type: text/event-stream\r\n\r\n"


def frame(**plain: object) -> bytes:
    return b"data: " + json.dumps(plain).encode() + b"\n\n"


def text(content: str, **delta: str) -> bytes:
    return frame(choices=[{"delta": {"content": content, **delta}}])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer_of(*arrivals: bytes) -> Answer:
    """Each arrival comes a second after the one before; the request was sent at 0."""
    times = enumerate(arrivals, start=1)
    return read_answer(Recording(0.0, [(float(at), data) for at, data in times]))


def test_a_chunked_answer_is_read_with_the_times_of_its_text() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    answer = answer_of(
        CHUNKED + chunk(text("", role="assistant")),
        chunk(text("Hel")),
        chunk(text("lo")) + chunk(frame(choices=[{"delta": {}, "finish_reason": "length"}])),
        chunk(frame(choices=[], usage=usage)) + chunk(b"data: [DONE]\n\n") + chunk(b""),
    )
    assert (answer.status, answer.text, answer.finish_reason) == (200, "Hello", "length")
    assert (answer.ttft, answer.gaps, answer.ended_at) == (2.0, [1.0], 4.0)
    assert (answer.prompt_tokens, answer.completion_tokens, answer.error) == (9, 2, "")


def test_an_answer_that_ends_with_the_connection_is_read_as_well() -> None:
    answer = answer_of(UNTIL_CLOSE, b": keepalive 1/9\n\n", text("Hello"), b"data: [DONE]\n\n")
    assert (answer.text, answer.ttft) == ("Hello", 3.0)


def test_a_frame_counts_when_its_last_byte_has_come() -> None:
    whole = chunk(text("late"))
    answer = answer_of(CHUNKED + whole[:20], whole[20:])
    assert (answer.text, answer.text_at) == ("late", (2.0,))


def test_tokens_that_come_together_leave_no_gap_between_them() -> None:
    answer = answer_of(CHUNKED + chunk(text("a")) + chunk(text("b")), chunk(text("c")))
    assert (answer.text, answer.gaps) == ("abc", [1.0])


def test_reasoning_is_text_too() -> None:
    assert answer_of(CHUNKED + chunk(text("", reasoning_content="hm"))).text == "hm"


def test_a_refusal_is_an_error_with_its_status() -> None:
    answer = answer_of(b"HTTP/1.1 429 Too Many\r\nContent-Length: 4\r\n\r\nfull")
    assert (answer.status, answer.error, answer.text_at) == (429, "status 429: full", ())


def test_an_error_in_the_middle_of_a_stream_is_kept() -> None:
    answer = answer_of(CHUNKED + chunk(text("a")), chunk(frame(error={"code": "engine_error"})))
    assert "engine_error" in answer.error


def test_a_connection_that_breaks_off_leaves_what_had_come() -> None:
    answer = answer_of(CHUNKED + chunk(text("a")), chunk(text("b"))[:-4])
    assert answer.text.startswith("a")
    assert answer.completion_tokens == 0


def test_a_connection_without_an_answer_has_status_zero() -> None:
    assert answer_of().status == 0
