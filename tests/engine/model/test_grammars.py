"""Answers held to grammars: always valid, ended properly, and nobody else's tokens change."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from engine import wire
from engine.model.grammar import MAX_COMPILED, GrammarShop
from tests.engine.model.rig import Run, loaded, make_handle, random_works, run_alone
from tests.fakes import make_work
from tests.tiny_models import END_THINK_ID, IM_END_ID, THINK_ID
from tests.waiting import wait_until

MODEL = "tiny-qwen3"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["Ann", "Bob", "Köln 🙂"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


def grammar(kind: str, source: Any = "", **changes: Any) -> wire.Grammar:
    text = source if isinstance(source, str) else json.dumps(source)
    return wire.Grammar(kind=wire.GrammarKind(kind), param="p", source=text, **changes)


GRAMMARS = {
    "schema": grammar("json_schema", SCHEMA),
    "regex": grammar("regex", "(yes|no), [0-9]{3}/[a-f]{2}"),
    "choice": grammar("choice", ["red", 'a "quoted"\nline', "日本"]),
    "lark": grammar("lark", 'start: "a" b{2,3}\nb: /[0-9]/'),
    "gbnf": grammar("gbnf", 'root ::= ("x" | "y") "-" [0-9]'),
}


def make_held(kind: str, request_id: str | None = None, **changes: Any) -> wire.Work:
    values: dict[str, Any] = {
        "prompt": range(30, 52),
        "max_tokens": 200,
        "sampling": wire.Sampling(seed=5, temperature=1.0),
        "grammar": GRAMMARS[kind],
    }
    return make_work(request_id or kind, **(values | changes))


def is_valid(kind: str, text: str) -> bool:
    match kind:
        case "schema":
            answer = json.loads(text)
            tags_are_right = set(answer["tags"]) <= {"x", "y"} and len(answer["tags"]) <= 3
            return tags_are_right and list(answer) == ["name", "age", "tags"]
        case "regex":
            return bool(re.fullmatch("(yes|no), [0-9]{3}/[a-f]{2}", text))
        case "choice":
            return text in ("red", 'a "quoted"\nline', "日本")
        case "lark":
            return bool(re.fullmatch("a[0-9]{2,3}", text))
    return bool(re.fullmatch("[xy]-[0-9]", text))


def text_of(run: Run, request_id: str, channel: wire.Channel = wire.Channel.CONTENT) -> str:
    deltas = (one for one in run.events[request_id] if isinstance(one, wire.Delta))
    return "".join(delta.text for delta in deltas if delta.channel is channel)


def answer(work: wire.Work) -> Run:
    run = Run(make_handle(MODEL))
    run.add(work)
    run.finish()
    return run


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("kind", GRAMMARS)
def test_an_answer_fits_its_grammar_and_ends(kind: str, temperature: float) -> None:
    run = answer(make_held(kind, sampling=wire.Sampling(seed=3, temperature=temperature)))

    end = run.ends[kind]
    assert isinstance(end, wire.Finished) and end.reason == wire.FinishReason.STOP
    assert is_valid(kind, text_of(run, kind))


def test_free_rows_draw_what_they_draw_among_themselves() -> None:
    """Rows come and go in the same steps; only what a grammar forbids differs."""
    free = [
        make_work(
            f"free{number}",
            prompt=range(30 + number, 52 + number),
            max_tokens=12,
            sampling=wire.Sampling(seed=number, temperature=0.5 * number, top_p=0.9),
        )
        for number in range(4)
    ]
    held = [make_held(kind, max_tokens=12) for kind in ("schema", "regex", "choice", "lark")]
    alone = {work.request_id: run_alone(MODEL, work) for work in free}
    run = Run(make_handle(MODEL))
    for one, other in zip(free, held, strict=True):
        run.add(one)
        run.add(other)
    run.finish()

    assert {work.request_id: run.tokens(work.request_id) for work in free} == alone


def test_rows_with_grammars_stay_valid_as_others_come_and_go() -> None:
    run = Run(make_handle(MODEL, max_rows=5))
    kinds = list(GRAMMARS)
    held = [
        make_held(kinds[number % 5], f"held{number}", prompt=range(30, 40 + 7 * number))
        for number in range(8)
    ]
    others = random_works(4, 8, sampling=wire.Sampling(seed=99, temperature=1.8))
    for one, other in zip(held, others, strict=True):
        run.add(one)
        run.add(other)
        run.turn()
    run.finish()

    for number, work in enumerate(held):
        assert is_valid(kinds[number % 5], text_of(run, work.request_id))


@pytest.mark.parametrize("cut", [1, 3, 6, 9])
def test_a_resumed_answer_goes_on_in_its_grammar(cut: int) -> None:
    work = make_held("schema")
    whole = answer(work)
    delivered = whole.tokens("schema")[:cut]
    run = Run(make_handle(MODEL))
    run.add(work, delivered=delivered)
    run.finish()

    assert delivered + run.tokens("schema") == whole.tokens("schema")
    assert text_of(whole, "schema").endswith(text_of(run, "schema"))


def test_thinking_is_free() -> None:
    run = answer(make_held("regex", starts_in_reasoning=True, max_tokens=12))

    assert len(text_of(run, "regex", wire.Channel.REASONING)) > 12
    assert text_of(run, "regex") == ""


@pytest.mark.parametrize("starts_in_reasoning", [True, False])
def test_the_grammar_begins_where_the_thinking_ends(starts_in_reasoning: bool) -> None:
    thoughts = loaded(MODEL).tokenizer.encode('I {"think"}', add_special_tokens=False)
    opening = [] if starts_in_reasoning else [THINK_ID]
    run = Run(make_handle(MODEL))
    work = make_held("schema", starts_in_reasoning=starts_in_reasoning)
    run.add(work, delivered=[*opening, *thoughts, END_THINK_ID])
    run.finish()

    assert is_valid("schema", text_of(run, "schema"))


def test_thinking_that_is_over_does_not_begin_again() -> None:
    favour = wire.Sampling(seed=1, temperature=0.0, logit_bias=((THINK_ID, 100.0),))
    run = answer(make_held("regex", sampling=favour, has_thought=True))

    assert is_valid("regex", text_of(run, "regex"))


def test_a_stop_string_ends_an_answer_inside_its_grammar() -> None:
    run = answer(make_held("regex", stop=(",",)))

    assert text_of(run, "regex") in ("yes", "no")


def test_a_grammar_that_cannot_be_compiled_fails_its_request_only() -> None:
    run = Run(make_handle(MODEL))
    run.add(make_held("schema", "bad", grammar=grammar("lark", "start: nowhere")))
    run.add(make_held("regex"))
    run.finish()

    end = run.ends["bad"]
    assert isinstance(end, wire.Failed) and end.code == wire.Code.INVALID_VALUE
    assert is_valid("regex", text_of(run, "regex"))


def test_a_grammar_that_grows_too_complex_fails_its_request_only() -> None:
    """Compiles at once, and explodes with the text."""
    hard = grammar("lark", "start: s\ns: s s s | /[a-z ]/ | s s")
    run = Run(make_handle(MODEL))
    run.add(make_held("schema", "hard", grammar=hard, max_tokens=2000))
    run.add(make_held("regex"))
    run.finish()

    end = run.ends["hard"]
    assert isinstance(end, wire.Failed) and end.code == wire.Code.INVALID_VALUE
    assert is_valid("regex", text_of(run, "regex"))


def answer_to_large(work: wire.Work) -> Run:
    """However long its grammar is compiled."""
    run = Run(make_handle(MODEL))
    run.add(work)

    def is_over() -> bool:
        run.turn()
        return run.handle.is_idle

    wait_until(is_over)
    return run


def wide(num_properties: int) -> dict[str, Any]:
    properties = {f"p{number}": {"enum": [number]} for number in range(num_properties)}
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("is_strict", [True, False])
def test_an_object_may_have_a_thousand_properties_that_may_be_left_out(is_strict: bool) -> None:
    held = grammar("json_schema", wide(1000), is_strict=is_strict)
    run = answer_to_large(make_held("schema", grammar=held, max_tokens=60))
    assert isinstance(run.ends["schema"], wire.Finished)
    assert text_of(run, "schema").startswith("{")


def test_why_a_grammar_cannot_be_followed_is_told_without_the_librarys_own_state() -> None:
    too_wide = grammar("json_schema", wide(1400))
    end = answer_to_large(make_held("schema", grammar=too_wide)).ends["schema"]
    assert isinstance(end, wire.Failed) and end.detail.startswith("This model cannot be held to")
    assert "<state>" not in end.detail and "\n" not in end.detail


def test_compiled_grammars_are_kept_and_their_number_is_bounded() -> None:
    shop = GrammarShop(loaded(MODEL).tokenizer, end_token_ids=[IM_END_ID])
    choices = [grammar("choice", [f"answer {number}"]) for number in range(MAX_COMPILED + 8)]
    orders = [shop.order(make_held("choice", grammar=one)) for one in [*choices, *choices[-8:]]]

    for order in orders:
        assert order is not None
        wait_until(lambda order=order: order.is_ready)  # type: ignore[misc]
    assert shop.num_compiled == MAX_COMPILED
