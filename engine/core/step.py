"""The frozen decision of one loop turn, and what came of it. Enough to run it elsewhere."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

from engine import wire
from engine.core.constraint import PendingGrammar
from engine.core.images import Image


class UndefinedNumbers(ArithmeticError):
    """The model has computed what is no number for this row."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The next prompt tokens of one row, or as many of each of several rows that start level.

    `ends_at_boundary`: what the row's caches hold after this slice is to be copied. `draws`: of all
    its rows or of none; the slice is the rest of their tokens, and draws the next one. `images`: of
    which tokens are among them; then it has one row, and draws nothing. `look_share`: so much of
    looking at an image is done in it. `tower_layers`: that alone, in so many layers of the tower,
    and no token is computed.
    """

    row_ids: tuple[int, ...]
    start_tokens: int
    token_ids: tuple[tuple[int, ...], ...]
    ends_at_boundary: bool = False
    draws: tuple[Join, ...] = ()
    images: tuple[Image, ...] = ()
    look_share: float = 0.0
    tower_layers: int = 0

    @property
    def width(self) -> int:
        """Tokens of each row."""
        return len(self.token_ids[0])

    @property
    def num_tokens(self) -> int:
        return self.width * len(self.token_ids)

    @property
    def stop_tokens(self) -> int:
        return self.start_tokens + self.width

    @property
    def mean_context(self) -> float:
        """Tokens before each token of the slice, on average."""
        return self.start_tokens + self.width / 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A row enters the batch: the batch call computes its last known token. Or its last slice does,
    and draws as the batch call would.

    `output_token_ids` are those drawn before (another engine, or a rebuilt batch).
    """

    row_id: int
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    sampling: wire.Sampling
    grammar: PendingGrammar | None = None

    @property
    def last_token_id(self) -> int:
        return (self.output_token_ids or self.prompt_token_ids)[-1]

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_token_ids) + len(self.output_token_ids)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Rows leave first. Then either slices are computed, or rows join and the batch draws a token a
    row: never both. A step with neither only waits for what is still being computed.

    `most_row_bytes`: what the batch's caches may take, padding included, where memory bounds them.
    """

    leaves: tuple[int, ...] = ()
    slices: tuple[Slice, ...] = ()
    joins: tuple[Join, ...] = ()
    decodes: tuple[int, ...] = ()
    most_row_bytes: int | None = None

    @property
    def first_draws(self) -> tuple[Join, ...]:
        """Those for whom the first output token is drawn, in the batch or by a slice."""
        drawing = (*self.joins, *(join for one in self.slices for join in one.draws))
        return tuple(join for join in drawing if not join.output_token_ids)

    @property
    def entering_row_ids(self) -> tuple[int, ...]:
        """Those that are sliced or that join."""
        sliced = (row_id for one in self.slices for row_id in one.row_ids)
        return (*sliced, *(join.row_id for join in self.joins))

    @property
    def computed_row_ids(self) -> tuple[int, ...]:
        """Every row that the device works on; empty for a step that only waits."""
        return (*self.decodes, *(row_id for one in self.slices for row_id in one.row_ids))


class Drawn(NamedTuple):
    """One row's new token; `logprobs` only where asked for. `fault`: its grammar has failed, the
    token counts for nothing, nor where it `is_undefined`: the logits were no numbers.
    """

    row_id: int
    token_id: int
    logprobs: wire.PositionLogprobs | None = None
    fault: str | None = None
    is_undefined: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A computed step. A device that works one step ahead ends it while the next one is run.

    `seconds` is the time the device spent on it.
    """

    step: Step
    seconds: float
    drawn: tuple[Drawn, ...] = ()


class Group(NamedTuple):
    """Rows that share a batch, and the tokens that each of its buffers has room for. `moves`: it is
    laid out anew."""

    num_rows: int
    num_tokens: int
    moves: bool


class StepRunner(Protocol):
    """What computes steps: model/runner.py, or a fake. `slices_on_grid`: new shapes of long slices
    are dear. `tower_layers`: of what looks at images. `drawing_share`: by how much longer a slice
    takes that draws, as a part of it; None: none may. `num_groups`: of batches. `has_moved`: the
    last step laid all of them out anew. `num_places`: rows of all, and free ones. `growing`: rows
    and tokens of those whose buffers the next step makes larger. `closing_bytes`: of those that the
    next step lays out anew whoever joins. `groups_after`: the batches when a step's rows have left
    and joined, before it is run."""

    @property
    def slices_on_grid(self) -> bool: ...
    @property
    def tower_layers(self) -> int: ...
    @property
    def drawing_share(self) -> float | None: ...
    @property
    def num_bytes(self) -> int: ...
    @property
    def num_groups(self) -> int: ...
    @property
    def has_moved(self) -> bool: ...
    @property
    def num_places(self) -> int: ...
    @property
    def growing(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def closing_bytes(self) -> int: ...
    def groups_after(self, step: Step) -> tuple[Group, ...]: ...
    def run(self, step: Step) -> tuple[Outcome, ...]: ...
    def reset(self) -> None: ...


class PassingRunner:
    """Does what another one does, but for what is derived from it."""

    def __init__(self, runner: StepRunner):
        self._runner = runner

    @property
    def slices_on_grid(self) -> bool:
        return self._runner.slices_on_grid

    @property
    def tower_layers(self) -> int:
        return self._runner.tower_layers

    @property
    def drawing_share(self) -> float | None:
        return self._runner.drawing_share

    @property
    def num_bytes(self) -> int:
        return self._runner.num_bytes

    @property
    def num_groups(self) -> int:
        return self._runner.num_groups

    @property
    def has_moved(self) -> bool:
        return self._runner.has_moved

    @property
    def num_places(self) -> int:
        return self._runner.num_places

    @property
    def growing(self) -> tuple[tuple[int, int], ...]:
        return self._runner.growing

    @property
    def closing_bytes(self) -> int:
        return self._runner.closing_bytes

    def groups_after(self, step: Step) -> tuple[Group, ...]:
        return self._runner.groups_after(step)

    def run(self, step: Step) -> tuple[Outcome, ...]:
        return self._runner.run(step)

    def reset(self) -> None:
        self._runner.reset()
