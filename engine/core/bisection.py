"""After a step has failed: which of its rows is to blame? Halving, so that the others keep running.

While a bisection goes on only the rows of one group may start. A group that fails alone is halved;
a group of one that does is the culprit; a row that draws a token in the batch is cleared.
"""

from __future__ import annotations

from collections.abc import Iterable


class Bisection:
    def __init__(self) -> None:
        self._groups: list[set[str]] = []

    def may_run(self, request_id: str) -> bool:
        return not self._groups or request_id in self._groups[0]

    def report_failure(self, request_ids: Iterable[str]) -> str | None:
        """The culprit if it is proven by this failure; otherwise the search is narrowed.

        Rows that were cleared run beside the next group. A failure then is proof against neither:
        the group runs again without them.
        """
        blamed = set(request_ids)
        group = self._groups.pop(0) if self._groups else blamed
        suspects, others = blamed & group or group, blamed - group
        if others:
            self._groups = [suspects, others, *self._groups]
            return None
        if len(suspects) == 1:
            return next(iter(suspects))
        ordered = sorted(suspects)
        middle = len(ordered) // 2
        halves = [set(ordered[:middle]), set(ordered[middle:])]
        self._groups = [half for half in halves if half] + self._groups
        return None

    def clear(self, request_id: str) -> None:
        """This row has drawn a token in the batch, or is gone."""
        if not self._groups:
            return
        for group in self._groups:
            group.discard(request_id)
        self._groups = [group for group in self._groups if group]
