"""How long will a prefill slice take? Learned from every slice that was run. Pure numbers.

    seconds = a + b * tokens + c * tokens * context

`context` is the mean number of tokens before each token of the slice. The three coefficients are a
ridge regression with exponential forgetting: old machines' load fades, a prior keeps it sane. What
was measured outlives the process: a prefix is only worth reading from disk where computing it is
slower, and a new process would not know. What looking at an image adds is learned by itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

_ENOUGH = 4  # turns to know what to expect
_FORGETTING = 0.97
_OUTLIER_FACTOR = 8.0  # a first use of a shape may compile for seconds: no news about speed
_CONTEXT_UNIT = 1024.0  # keeps the three features of one magnitude
_PRIOR = (0.005, 0.002, 0.0002)  # 500 tokens/s: cautious until measured
# Of a coefficient's relative error, against 1e-3 for that of one slice's time: it decides only
# what the slices so far do not tell, and there it is too cautious rather than too bold.
_PRIOR_WEIGHT = 1e-6
_FIRST_TOKENS = 64  # of a turn, before any was measured
FIRST_USE_SECONDS = 2.0  # what the device may have to compile before the first steps of a model
_GROWTH = 4  # and no turn has more than so many times the most that was measured
_SPREAD_MEMORY = 0.9
_LARGEST_SPREAD = 0.25
_IMAGE_MEMORY = 0.7
_LEAST_IMAGE_SECONDS = 1e-4  # 0 is what nobody has measured


Three = tuple[float, float, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The regression's equations, its error, and how many tokens a turn may have."""

    moments: tuple[Three, Three, Three]
    targets: Three
    variance: float
    trusted_tokens: int


class CostModel:
    def __init__(self, measured: Measured | None = None) -> None:
        """Goes on from what was `measured`. Raises ArithmeticError where that has no solution."""
        self.trusted_tokens = _FIRST_TOKENS
        self._coefficients = _PRIOR
        self._moments = [[0.0] * 3 for _ in range(3)]
        self._targets = [0.0] * 3
        self._num_learned = 0
        self._variance = 0.0
        self.image_seconds = 0.0  # beyond what its tokens take
        if measured is None:
            self._add_prior(_PRIOR_WEIGHT)
            return
        self.trusted_tokens = measured.trusted_tokens
        self._moments = [list(row) for row in measured.moments]
        self._targets = list(measured.targets)
        self._coefficients = _non_negative_solution(self._moments, self._targets)
        self._num_learned = _ENOUGH
        self._variance = measured.variance

    @property
    def measured(self) -> Measured | None:
        """None while too little was."""
        if self._num_learned < _ENOUGH:
            return None
        first, second, third = (_three(row) for row in self._moments)
        return Measured(
            moments=(first, second, third),
            targets=_three(self._targets),
            variance=self._variance,
            trusted_tokens=self.trusted_tokens,
        )

    def predict(self, tokens: int, *, start: int = 0, rows: int = 1, images: float = 0.0) -> float:
        """Seconds for the next `tokens` tokens of each of `rows` prompts, after `start` others, and
        for so many images among them."""
        features = _features(tokens * rows, start + tokens / 2)
        reading = sum(k * x for k, x in zip(self._coefficients, features, strict=True))
        return reading + images * self.image_seconds

    @property
    def spread(self) -> float:
        """How far turns were from what was expected of them lately, as a part of it: one standard
        deviation."""
        return min(_LARGEST_SPREAD, math.sqrt(self._variance))

    def learn(self, *, tokens: int, context: float, seconds: float) -> None:
        self.learn_turn([(tokens, context)], seconds=seconds)

    def learn_turn(self, slices: Sequence[tuple[int, float]], *, seconds: float) -> None:
        """Several slices, each (tokens, context), that took `seconds` together.

        Their features add up. Dealing the seconds out by what was predicted would confirm whatever
        was predicted, however wrong.
        """
        parts = [_features(tokens, context) for tokens, context in slices]
        ones, total, products = (sum(values) for values in zip(*parts, strict=True))
        features = (ones, total, products)
        expected = sum(k * x for k, x in zip(self._coefficients, features, strict=True))
        if self._num_learned >= _ENOUGH and seconds > _OUTLIER_FACTOR * expected:
            seconds = 2 * expected
        if self._num_learned >= _ENOUGH:
            error = min(1.0, seconds / expected - 1)
            self._variance += (1 - _SPREAD_MEMORY) * (error**2 - self._variance)
        known = self.trusted_tokens if self._num_learned else 0
        self.trusted_tokens = max(known, _GROWTH * int(total))
        self._num_learned += 1
        self._add(features, seconds)
        self._coefficients = _non_negative_solution(self._moments, self._targets)

    def learn_images(self, number: float, *, seconds: float) -> None:
        """So many took so long beyond their tokens."""
        each = max(_LEAST_IMAGE_SECONDS, seconds) / number
        memory = _IMAGE_MEMORY if self.image_seconds else 0.0
        self.image_seconds = memory * self.image_seconds + (1 - memory) * each

    def most_tokens(self, *, seconds: float, context: float, at_most: int, at_least: int) -> int:
        """The largest slice that fits into `seconds` by what was measured, within the limits."""
        a, b, c = self._coefficients
        # The slice itself adds half its length to the mean context: solve the quadratic.
        per_token = b + c * context / _CONTEXT_UNIT
        curve = c / (2 * _CONTEXT_UNIT)
        budget = max(0.0, seconds - a)
        if curve > 1e-15:
            tokens = ((per_token**2 + 4 * curve * budget) ** 0.5 - per_token) / (2 * curve)
        else:
            tokens = budget / max(per_token, 1e-9)
        return int(min(at_most, max(at_least, min(tokens, self.trusted_tokens))))

    def _add(self, features: Three, seconds: float) -> None:
        # Relative error counts, not absolute: short slices matter as much as long ones.
        weight = 1.0 / max(seconds, 1e-4) ** 2 * 1e-3
        for i in range(3):
            self._targets[i] = _FORGETTING * self._targets[i] + weight * features[i] * seconds
            for j in range(3):
                self._moments[i][j] = (
                    _FORGETTING * self._moments[i][j] + weight * features[i] * features[j]
                )
        # Some of the prior flows back, or forgetting would leave the equations singular.
        self._add_prior((1 - _FORGETTING) * _PRIOR_WEIGHT)

    def _add_prior(self, weight: float) -> None:
        for i, value in enumerate(_PRIOR):
            self._moments[i][i] += weight / value**2
            self._targets[i] += weight / value


def _three(values: Sequence[float]) -> Three:
    first, second, third = values
    return first, second, third


def _features(tokens: int, context: float) -> Three:
    return 1.0, float(tokens), tokens * context / _CONTEXT_UNIT


def _non_negative_solution(moments: list[list[float]], targets: list[float]) -> Three:
    """Least squares; a coefficient that comes out negative is dropped and the rest solved again."""
    active = [0, 1, 2]
    while active:
        solution = _solve(
            [[moments[i][j] for j in active] for i in active], [targets[i] for i in active]
        )
        if min(solution) >= 0:
            break
        active.remove(active[solution.index(min(solution))])
    values = dict(zip(active, solution, strict=True)) if active else {}
    return values.get(0, 0.0), max(values.get(1, 0.0), 1e-7), values.get(2, 0.0)


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss without pivoting: the matrix is positive definite."""
    size = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for i in range(size):
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i], strict=True)]
    for i in reversed(range(size)):
        known = sum(rows[i][j] * rows[j][size] for j in range(i + 1, size))
        rows[i][size] = (rows[i][size] - known) / rows[i][i]
    return [row[size] for row in rows]
