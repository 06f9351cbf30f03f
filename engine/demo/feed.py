"""An endless stream of training batches, drawn and encoded by worker processes. It knows no MLX."""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy
from tokenizers import Tokenizer

from engine.demo.corpus.mixture import draw
from engine.demo.rendering import Encoded, encode_lessons

# Rows are padded to the next of these lengths, so only a few shapes are ever compiled.
LENGTHS = (96, 160, 256, 512, 1024, 2048, 4096)
_LESSONS_PER_TASK = 512


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    tokens: numpy.ndarray[Any, Any]  # [rows, length] int32
    learned: numpy.ndarray[Any, Any]  # [rows, length] float32, 1 where the token is to be learned


class _Buckets:
    """Collects lessons of like length until there are enough for one batch.

    A lesson longer than a whole batch is left out.
    """

    def __init__(self, tokens_per_batch: int) -> None:
        self._rows = {length: tokens_per_batch // length for length in LENGTHS}
        self._waiting: dict[int, list[Encoded]] = {length: [] for length in LENGTHS}

    def add(self, lesson: Encoded) -> Batch | None:
        length = next(length for length in LENGTHS if lesson[0].size <= length)
        if self._rows[length] == 0:
            return None
        waiting = self._waiting[length]
        waiting.append(lesson)
        if len(waiting) < self._rows[length]:
            return None
        self._waiting[length] = []
        return _pad(waiting, length)


def _pad(lessons: list[Encoded], length: int) -> Batch:
    tokens = numpy.zeros((len(lessons), length), numpy.int32)
    learned = numpy.zeros((len(lessons), length), numpy.float32)
    for row, (ids, mask) in enumerate(lessons):
        tokens[row, : ids.size] = ids
        learned[row, : ids.size] = mask
    return Batch(tokens=tokens, learned=learned)


_tokenizer: Tokenizer | None = None


def _open_tokenizer(path: str) -> None:
    global _tokenizer  # one per worker process, set once when the process starts
    _tokenizer = Tokenizer.from_file(path)


def _draw_lessons(seed: str) -> list[Encoded]:
    assert _tokenizer is not None
    rng = Random(seed)
    lessons = [draw(rng) for _ in range(_LESSONS_PER_TASK)]
    return encode_lessons(_tokenizer, lessons, LENGTHS[-1])


def batches(tokenizer: Path, *, seed: int, workers: int, tokens_per_batch: int) -> Generator[Batch]:
    """Yield batches for ever; the workers stay two tasks each ahead."""
    buckets = _Buckets(tokens_per_batch)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_open_tokenizer, initargs=(str(tokenizer),)
    ) as pool:
        tasks: deque[Future[list[Encoded]]] = deque()
        number = 0
        while True:
            while len(tasks) < 2 * workers:
                tasks.append(pool.submit(_draw_lessons, f"{seed}/{number}"))
                number += 1
            for lesson in tasks.popleft().result():
                batch = buckets.add(lesson)
                if batch is not None:
                    yield batch
