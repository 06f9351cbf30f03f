"""What may be drawn, how often, and with what noise."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest

from engine import wire
from engine.model.sampling import BatchSampler, SampledRow, noise_keys

VOCAB = 32
RNG = np.random.default_rng(1)
LOGITS = RNG.normal(size=VOCAB) * 2


def make_row(
    prompt: tuple[int, ...] = (1,), output: tuple[int, ...] = (), **changes: object
) -> SampledRow:
    sampling = wire.Sampling(**{"seed": 1, "temperature": 1.0, **changes})  # type: ignore[arg-type]
    return SampledRow(sampling, prompt_token_ids=prompt, output_token_ids=output)


def draw_many(row: SampledRow, times: int = 400, logits: np.ndarray = LOGITS) -> Counter[int]:
    sampler = BatchSampler()
    sampler.arrange([row])
    line = mx.array(logits[None].astype(np.float32))
    return Counter(int(sampler.draw(line).token_ids.item()) for _ in range(times))


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def likeliest(count: int) -> set[int]:
    return set(np.argsort(-LOGITS)[:count].tolist())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_temperature_says(temperature: float) -> None:
    times = 3000
    counts = draw_many(make_row(temperature=temperature), times)
    expected = softmax(LOGITS / temperature) * times
    error = sum((counts[token] - expected[token]) ** 2 / expected[token] for token in range(VOCAB))
    assert error < 75  # chi-square with 31 degrees of freedom: p < 1e-4


def test_top_k_keeps_the_likeliest() -> None:
    assert set(draw_many(make_row(temperature=3.0, top_k=4))) == likeliest(4)


def test_top_k_beyond_the_vocabulary_keeps_all() -> None:
    assert len(draw_many(make_row(temperature=5.0, top_k=10_000), 1500)) == VOCAB


def test_top_p_keeps_the_fewest_that_hold_the_share() -> None:
    probabilities = np.sort(softmax(LOGITS / 1.5))[::-1]
    count = int(np.searchsorted(np.cumsum(probabilities), 0.8)) + 1
    assert set(draw_many(make_row(temperature=1.5, top_p=0.8), 1500)) == likeliest(count)


@pytest.mark.parametrize("top_p", [0, 1e-9])
def test_a_tiny_top_p_keeps_the_likeliest_token(top_p: float) -> None:
    assert set(draw_many(make_row(temperature=2.0, top_p=top_p), 50)) == likeliest(1)


def test_min_p_is_relative_to_the_likeliest() -> None:
    probabilities = softmax(LOGITS)
    allowed = set(np.flatnonzero(probabilities >= 0.2 * probabilities.max()).tolist())
    assert set(draw_many(make_row(min_p=0.2), 1500)) == allowed


def test_greedy_takes_the_likeliest() -> None:
    assert set(draw_many(make_row(temperature=0.0), 5)) == likeliest(1)


@pytest.mark.parametrize("temperature", [1e-45, 1e-38, 1e-30, 1e-7])
def test_a_temperature_next_to_zero_is_greedy(temperature: float) -> None:
    assert set(draw_many(make_row(temperature=temperature), 5)) == likeliest(1)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_a_row_of_16_bits_draws_the_same_beside_others(dtype: mx.Dtype) -> None:
    line = mx.array([8.0, 8.0, *[0.0] * (VOCAB - 2)], dtype)[None]
    for change in ({"logit_bias": ((1, 0.001),)}, {"repetition_penalty": 1.0001}):
        row = make_row(prompt=(0,), temperature=0.0, **change)
        for others in ([], [make_row(temperature=0.0)]):
            sampler = BatchSampler()
            sampler.arrange([row, *others])
            drawn = sampler.draw(mx.concatenate([line] * (1 + len(others))))
            assert drawn.token_ids.tolist()[0] == 1, (change, others)


def test_logit_bias_forbids_and_forces() -> None:
    best, other = (int(one) for one in np.argsort(-LOGITS)[:2])
    assert set(draw_many(make_row(temperature=0.0, logit_bias=((best, -100.0),)), 5)) == {other}
    assert set(draw_many(make_row(logit_bias=((7, 100.0),)), 5)) == {7}


def test_frequency_penalty_counts_what_was_drawn() -> None:
    counts = draw_many(make_row(temperature=0.0, frequency_penalty=2.0), 12)
    assert len(counts) > 3


def test_presence_penalty_counts_once() -> None:
    logits = np.zeros(VOCAB)
    logits[3], logits[4] = 5.0, 4.5
    sampler = BatchSampler()
    sampler.arrange([make_row(temperature=0.0, presence_penalty=1.0)])
    line = mx.array(logits[None].astype(np.float32))
    drawn = [int(sampler.draw(line).token_ids.item()) for _ in range(4)]
    assert drawn == [3, 4, 3, 3]


def test_repetition_penalty_counts_the_prompt() -> None:
    best = int(np.argmax(LOGITS))
    row = make_row(prompt=(best,), temperature=0.0, repetition_penalty=50.0)
    assert best not in draw_many(row, 1)


def test_counts_survive_when_rows_come_and_go() -> None:
    logits = np.zeros(VOCAB)
    logits[3], logits[4] = 5.0, 4.5
    sampler = BatchSampler()
    penalised = make_row(temperature=0.0, presence_penalty=1.0)
    sampler.arrange([make_row(temperature=0.0), penalised])
    line = mx.array(np.stack([logits, logits]).astype(np.float32))
    sampler.draw(line)
    sampler.arrange([penalised])
    assert int(sampler.draw(line[:1]).token_ids.item()) == 4


def test_noise_depends_on_seed_and_position_only() -> None:
    alone = draw_many(make_row(seed=5), 1)
    sampler = BatchSampler()
    sampler.arrange([make_row(seed=9), make_row(seed=5), make_row(temperature=0.0)])
    line = mx.array(np.stack([LOGITS] * 3).astype(np.float32))
    assert int(sampler.draw(line).token_ids[1].item()) == next(iter(alone))


def test_keys_of_neighbours_have_nothing_in_common() -> None:
    seeds = np.arange(200, dtype=np.uint64).repeat(50)
    positions = np.tile(np.arange(50, dtype=np.uint64), 200)
    keys = noise_keys(seeds, positions)
    assert len({tuple(key) for key in keys.tolist()}) == len(keys)


def test_logprobs_are_computed_for_rows_that_ask() -> None:
    sampler = BatchSampler()
    sampler.arrange([make_row(), make_row(top_logprobs=3), make_row(top_logprobs=0)])
    drawn = sampler.draw(mx.array(np.stack([LOGITS] * 3).astype(np.float32)))
    assert drawn.logprob_rows == ((1, 3), (2, 0))
    assert drawn.top_token_ids is not None and drawn.drawn_logprobs is not None
    expected = np.log(softmax(LOGITS))
    assert drawn.top_token_ids[0].tolist() == np.argsort(-LOGITS)[:3].tolist()
    token = int(drawn.token_ids[1].item())
    assert float(drawn.drawn_logprobs[0].item()) == pytest.approx(expected[token], abs=1e-4)


def test_logprobs_are_the_models_own_whatever_is_made_of_them() -> None:
    sampler = BatchSampler()
    sampler.arrange(
        [
            make_row(
                top_logprobs=VOCAB, temperature=0.3, top_k=3, min_p=0.5, logit_bias=((7, 100.0),)
            )
        ]
    )
    drawn = sampler.draw(mx.array(LOGITS[None].astype(np.float32)))
    assert drawn.top_logprobs is not None and drawn.drawn_logprobs is not None
    expected = np.log(softmax(LOGITS))
    assert np.allclose(np.array(drawn.top_logprobs[0]), -np.sort(-expected), atol=1e-4)
    assert float(drawn.drawn_logprobs[0].item()) == pytest.approx(expected[7], abs=1e-4)


def test_nobody_asks_for_logprobs_and_nobody_pays() -> None:
    sampler = BatchSampler()
    sampler.arrange([make_row()])
    drawn = sampler.draw(mx.array(LOGITS[None].astype(np.float32)))
    assert len(drawn.arrays) == 2  # the tokens, and whether a row's logits were no numbers


KINDS: list[dict[str, object]] = [
    {"temperature": 0.0},
    {"temperature": 0.0, "repetition_penalty": 1.5, "logit_bias": ((7, 100.0),)},
    {"temperature": 0.8},
    {"temperature": 0.8, "top_k": 4, "top_p": 0.9},
    {"min_p": 0.2, "top_logprobs": 2},
]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("token", [0, 7, VOCAB - 1])
def test_one_logit_that_is_no_number_is_told_of_its_row_alone(
    dtype: mx.Dtype, wrong: float, token: int
) -> None:
    for kind in KINDS:
        sampler = BatchSampler()
        sampler.arrange([make_row(**kind) for _ in range(3)])
        lines = np.stack([LOGITS] * 3)
        lines[1, token] = wrong
        drawn = sampler.draw(mx.array(lines.astype(np.float32)).astype(dtype))
        assert drawn.is_undefined.tolist() == [False, True, False], kind


class OnlyEven:
    """A Constraint."""

    fault = None

    def fill(self, words: npt.NDArray[np.int32]) -> None:
        words[:] = 0x5555_5555

    def advance(self, token_id: int) -> None: ...


def test_a_logit_that_is_no_number_is_told_where_a_grammar_forbids_its_token() -> None:
    for token in (8, 9):
        constraint, sampler = OnlyEven(), BatchSampler()
        greedy = wire.Sampling(seed=1, temperature=0.0)
        row = SampledRow(greedy, prompt_token_ids=(), output_token_ids=(), constraint=constraint)
        sampler.arrange([row])
        line = LOGITS.astype(np.float32)
        line[token] = math.nan
        assert sampler.draw(mx.array(line[None])).is_undefined.tolist() == [True], token


def test_a_token_that_a_model_rules_out_leaves_its_row_defined() -> None:
    sampler = BatchSampler()
    sampler.arrange([make_row()])
    line = LOGITS.copy()
    line[:5] = -math.inf
    drawn = sampler.draw(mx.array(line[None].astype(np.float32)))
    assert drawn.is_undefined.tolist() == [False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_in_which_no_token_is_possible_is_undefined(kind: dict[str, object]) -> None:
    sampler = BatchSampler()
    sampler.arrange([make_row(**kind)])
    assert sampler.draw(mx.full((1, VOCAB), -math.inf)).is_undefined.tolist() == [True]


@pytest.mark.parametrize("count", [1, 5, VOCAB])
def test_of_equally_likely_tokens_the_lower_id_is_told_first(count: int) -> None:
    lines = np.random.default_rng(count).integers(0, 5, (20, VOCAB)).astype(np.float32)
    sampler = BatchSampler()
    sampler.arrange([make_row(top_logprobs=count) for _ in lines])
    drawn = sampler.draw(mx.array(lines))
    assert drawn.top_token_ids is not None
    expected = np.argsort(-lines, axis=-1, kind="stable")[:, :count]
    assert np.array_equal(np.array(drawn.top_token_ids), expected)


@pytest.mark.skipif(mx.cuda.is_available(), reason="a GPU sorts it all in 0.2 ms")
def test_a_few_of_a_large_vocabulary_are_told_sooner_than_it_is_sorted() -> None:
    line = mx.array(np.random.default_rng(3).normal(size=(1, 151_936)).astype(np.float32))
    sampler = BatchSampler()
    for count in (0, 5):
        sampler.arrange([make_row(temperature=0.0, top_logprobs=count)])
        drawing = least_seconds(lambda: mx.eval(sampler.draw(line).arrays))
        assert drawing < least_seconds(lambda: mx.eval(mx.argsort(line, axis=-1)))


def least_seconds(work: Callable[[], None]) -> float:
    def seconds() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return min(seconds() for _ in range(5))
