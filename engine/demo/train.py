"""Trains the demo model on CPU, CUDA or Metal: `python -m engine.demo.train --out DIR`.

It draws its lessons as it goes, so no data set is stored. It does not judge the result: see
evaluate.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
from mlx import nn
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.qwen3 import Model
from tokenizers import Tokenizer

from engine.demo.feed import batches
from engine.demo.shape import CONTEXT, VOCABULARY, build_model, save_configs
from engine.demo.vocabulary import save_tokenizer, train_tokenizer

_WEIGHT_DECAY = 0.05
_WARM_UP_SHARE = 0.03
_MAX_GRADIENT_NORM = 1.0
# About a third of all padded places are learned; a constant keeps every token's weight the same.
_LEARNED_SHARE = 0.33
_LINES_TO_LOG = 60


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one training run is."""

    out: Path
    steps: int
    tokens_per_step: int
    learning_rate: float
    workers: int
    seed: int
    tokenizer: Path | None
    tokenizer_lessons: int


def train(plan: Plan, log: Callable[[str], None]) -> None:
    """Train from nothing and write a folder that mlx_lm.load opens."""
    plan.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    _prepare_tokenizer(plan)
    save_configs(plan.out)
    mx.random.seed(plan.seed)
    model = build_model()
    count = sum(array.size for array in _named_weights(model).values())
    log(
        f"{count} parameters on {mx.default_device()}; tokenizer {time.monotonic() - started:.0f} s"
    )
    _run(model, plan, log)
    save_weights(model, plan.out / "model.safetensors")
    log(f"written to {plan.out} after {time.monotonic() - started:.0f} s")


def _prepare_tokenizer(plan: Plan) -> None:
    if plan.tokenizer is not None:
        tokenizer = Tokenizer.from_file(str(plan.tokenizer))
    else:
        tokenizer = train_tokenizer(size=VOCABULARY, lessons=plan.tokenizer_lessons, seed=plan.seed)
    save_tokenizer(tokenizer, plan.out, context=CONTEXT)


def _run(model: Model, plan: Plan, log: Callable[[str], None]) -> None:
    optimizer = optim.AdamW(
        learning_rate=_schedule(plan), betas=[0.9, 0.98], weight_decay=_WEIGHT_DECAY
    )
    step = _step(model, optimizer)
    feed = batches(
        plan.out / "tokenizer.json",
        seed=plan.seed,
        workers=plan.workers,
        tokens_per_batch=plan.tokens_per_step,
    )
    started = time.monotonic()
    every = max(1, plan.steps // _LINES_TO_LOG)
    window: list[tuple[mx.array, mx.array]] = []
    for number, batch in zip(range(1, plan.steps + 1), feed, strict=False):
        window.append(step(mx.array(batch.tokens), mx.array(batch.learned)))
        mx.eval(model.parameters(), optimizer.state)
        if number % every == 0 or number == plan.steps:
            loss, learned = (
                sum(part.item() for part in column) for column in zip(*window, strict=True)
            )
            log(
                f"step {number}/{plan.steps} loss {loss / learned:.4f}"
                f" {time.monotonic() - started:.0f} s"
            )
            window.clear()
    feed.close()


def _schedule(plan: Plan) -> Callable[[Any], mx.array]:
    warm_up = max(1, int(plan.steps * _WARM_UP_SHARE))
    rise = optim.linear_schedule(plan.learning_rate / 100, plan.learning_rate, warm_up)
    fall = optim.cosine_decay(plan.learning_rate, max(1, plan.steps - warm_up))
    joined: Callable[[Any], mx.array] = optim.join_schedules([rise, fall], [warm_up])
    return joined


def _step(
    model: Model, optimizer: optim.Optimizer
) -> Callable[[mx.array, mx.array], tuple[mx.array, mx.array]]:
    """One update; returns the summed loss and the number of learned tokens."""
    # Weights stay float32; the GPU computes in bfloat16, which the CPU does slowly.
    on_gpu = mx.default_device() == mx.gpu
    compute = mx.bfloat16 if on_gpu else mx.float32

    def loss_of(
        parameters: dict[str, Any], tokens: mx.array, learned: mx.array
    ) -> tuple[mx.array, mx.array]:
        model.update(tree_map(lambda array: array.astype(compute), parameters))
        logits = model(tokens[:, :-1]).astype(mx.float32)
        mask = learned[:, 1:]
        total = (nn.losses.cross_entropy(logits, tokens[:, 1:]) * mask).sum()
        return total / (mask.size * _LEARNED_SHARE), total

    gradient_of = mx.value_and_grad(loss_of)
    state = [model.state, optimizer.state]

    def step(tokens: mx.array, learned: mx.array) -> tuple[mx.array, mx.array]:
        parameters = model.trainable_parameters()
        (_, total), gradients = gradient_of(parameters, tokens, learned)
        gradients, _ = optim.clip_grad_norm(gradients, _MAX_GRADIENT_NORM)  # type: ignore[no-untyped-call]
        model.update(parameters)
        optimizer.update(model, gradients)
        return total, learned[:, 1:].sum()

    # On the CPU, compiling calls a C++ compiler for every shape and gains little.
    return mx.compile(step, inputs=state, outputs=state) if on_gpu else step


def save_weights(model: Model, path: Path) -> None:
    weights = {name: array.astype(mx.bfloat16) for name, array in _named_weights(model).items()}
    mx.save_safetensors(str(path), weights, metadata={"format": "mlx"})


def _named_weights(model: Model) -> dict[str, mx.array]:
    return dict(tree_flatten(model.parameters()))


def _plan(arguments: argparse.Namespace) -> Plan:
    on_gpu = mx.default_device() == mx.gpu
    return Plan(
        out=arguments.out,
        steps=arguments.steps,
        tokens_per_step=arguments.tokens_per_step or (65_536 if on_gpu else 8_192),
        learning_rate=arguments.learning_rate,
        workers=arguments.workers,
        seed=arguments.seed,
        tokenizer=arguments.tokenizer,
        tokenizer_lessons=arguments.tokenizer_lessons,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--tokens-per-step", type=int, help="default by device")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokenizer", type=Path, help="use this tokenizer.json")
    parser.add_argument("--tokenizer-lessons", type=int, default=30_000)
    train(_plan(parser.parse_args()), partial(print, flush=True))


if __name__ == "__main__":
    main()
