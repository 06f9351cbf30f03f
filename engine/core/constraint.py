"""What holds an answer to a grammar, as rows and steps see it. It does not know how it is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Constraint(Protocol):
    """Which token one row may draw next. It follows the tokens that the row has drawn.

    `fault`: why it can say nothing any more; the row then draws freely and must be given up.
    """

    @property
    def fault(self) -> str | None: ...
    def advance(self, token_id: int) -> None: ...
    def fill(self, words: npt.NDArray[np.int32]) -> None:
        """Set a bit for each token that may come next; tokens beyond `words` never may."""
        ...


class PendingGrammar(Protocol):
    """A grammar on its way to a model's tokens. `rejection`: it will never get there."""

    @property
    def is_ready(self) -> bool: ...
    @property
    def rejection(self) -> str | None: ...
    def start(self, output_token_ids: Sequence[int]) -> Constraint:
        """For a row that has drawn these tokens already. Only when it is ready."""
        ...
