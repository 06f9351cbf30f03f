"""What measured peaks say of the formula's parts: a factor for each. Pure numbers.

    measured = sum of factor * part

The factors are a ridge regression with forgetting, weighted so that large shapes count more than
small ones. How far a factor may fall depends on how large a part was seen, beside that of the
largest shape that the model may be given: small shapes alone never talk a large one down. A large
measurement above what the factors say lifts all of them at once; that is forgotten slowly.
"""

from __future__ import annotations

import dataclasses

from engine.sizing.estimate import Parts

Factors = tuple[float, ...]

_FORGETTING = 0.95
_START_WEIGHT = 0.005  # of one measurement of the largest shape
_SAFETY = 1.03
_LIFT_FORGETTING = 0.2
_TELLING = 0.3  # of the largest measured; what is less cannot lift
_LEAST_FACTOR, _LARGEST_FACTOR = 0.25, 16.0  # of the usual ones
_TELLING_ALL = 0.3  # of the largest part; seeing so much lets a factor fall as far as it goes
_ROUNDS = 6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What outlives a process. `seen`: the largest of each part that was measured."""

    factors: Factors
    seen: Parts


class PeakLearner:
    """`usual`: the factors before anything is measured, `largest`: the parts of the largest shape
    there may be; `factors` is what to use now. `may_fall`: whether they may become less than usual.
    """

    def __init__(
        self,
        *,
        usual: Factors,
        largest: Parts,
        learned: Learned | None = None,
        may_fall: bool = True,
    ):
        self._usual = usual
        self._may_fall = may_fall
        self._start = learned.factors if learned else usual
        self._largest = [max(part, 1.0) for part in largest]
        self._seen = list(learned.seen) if learned else [0.0] * 3
        self._moments = [[0.0] * 3 for _ in range(3)]
        self._targets = [0.0] * 3
        self._fitted = list(self._start)
        self._most_measured = 0.0
        self._lift = 1.0
        self.factors: Factors = self._start

    @property
    def learned(self) -> Learned:
        factors = tuple(one * self._lift for one in self._fitted)
        return Learned(factors=factors, seen=(self._seen[0], self._seen[1], self._seen[2]))

    def learn(self, parts: Parts, *, measured_bytes: int) -> None:
        if measured_bytes <= 0 or max(parts) <= 0:
            return
        self._add(parts, measured_bytes)
        self._fit()
        self._lift += _LIFT_FORGETTING * (1.0 - self._lift)
        self._most_measured = max(self._most_measured, measured_bytes)
        if measured_bytes >= _TELLING * self._most_measured:
            expected = sum(a * b for a, b in zip(self._fitted, parts, strict=True))
            self._lift = max(self._lift, measured_bytes / max(expected, 1.0))
        self.factors = tuple(
            min(one * self._lift * _SAFETY, _LARGEST_FACTOR * usual)
            for one, usual in zip(self._fitted, self._usual, strict=True)
        )

    def _add(self, parts: Parts, measured_bytes: int) -> None:
        for i in range(3):
            self._seen[i] = max(self._seen[i], parts[i])
            self._targets[i] = _FORGETTING * self._targets[i] + parts[i]
            for j in range(3):
                added = parts[i] * parts[j] / measured_bytes
                self._moments[i][j] = _FORGETTING * self._moments[i][j] + added

    def _fit(self) -> None:
        """A few rounds of least squares by coordinates, from where the last ones ended."""
        for _ in range(_ROUNDS):
            for i, start in enumerate(self._start):
                weight = _START_WEIGHT * self._largest[i]
                others = sum(self._moments[i][j] * self._fitted[j] for j in range(3) if j != i)
                pulled = self._targets[i] - others + weight * start
                found = pulled / (self._moments[i][i] + weight)
                self._fitted[i] = max(found, self._least(i))

    def _least(self, i: int) -> float:
        if not self._may_fall:
            return self._usual[i]
        unseen = 1.0 - self._seen[i] / (_TELLING_ALL * self._largest[i])
        return self._usual[i] * max(unseen, _LEAST_FACTOR)
