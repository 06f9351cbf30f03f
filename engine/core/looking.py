"""Looking at an image in portions: layers of the tower by themselves, before the slice that has its
tokens, where all of it would take longer than running rows may wait. Pure.
"""

from __future__ import annotations

from engine.core.cost import CostModel
from engine.core.sequence import Sequence
from engine.core.step import Slice


def layers_before(sequence: Sequence, cost: CostModel, *, seconds: float, of_layers: int) -> int:
    """How many of the tower fit into `seconds`, one at least; the last one is left to the slice
    with the image, and 0 says that it is its turn. Before any was measured, one by one."""
    left = round((1 - sequence.looked_share) * of_layers)
    each = cost.image_seconds / of_layers
    fitting = int(seconds / each) if each else 1
    return max(0, min(max(1, fitting), left - 1))


def look(sequence: Sequence, layers: int, *, of_layers: int) -> Slice:
    """At the next image of a prompt; advances that."""
    assert sequence.row_id is not None
    start = sequence.computed_tokens
    sequence.looked_share += layers / of_layers
    return Slice(
        row_ids=(sequence.row_id,),
        start_tokens=start,
        token_ids=((),),
        images=(next(one for one in sequence.images if one.stop > start),),
        look_share=layers / of_layers,
        tower_layers=layers,
    )
