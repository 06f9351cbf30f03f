"""What a new life of an engine knows of the one before. It does not know where that was noted."""

from __future__ import annotations

import dataclasses

# What belongs to an engine's name outlasts its last life by so long, on disk and in Redis.
KEPT_SECONDS = 7 * 86_400


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """`own` and `former` name lives; an empty `former`: nothing is known of it.

    `at_work`: the requests that the former life was computing something for when it ended.
    `was_loading`: it was loading a model then, which may have ended it.
    """

    own: str = ""
    former: str = ""
    at_work: frozenset[str] = frozenset()
    was_loading: bool = False


UNKNOWN_LIVES = Lives()
