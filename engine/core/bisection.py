"""After a step has failed: which of its rows is to blame? Halving, so that the others keep running.

While a bisection goes on only the rows of one group may run. A group that fails is halved; a group
of one that fails is the culprit; a row that draws a token is cleared.
"""

from __future__ import annotations

from collections.abc import Iterable


class Bisection:
    def __init__(self) -> None:
        self._groups: list[set[str]] = []

    def may_run(self, request_id: str) -> bool:
        return not self._groups or request_id in self._groups[0]

    def report_failure(self, request_ids: Iterable[str]) -> str | None:
        """The culprit if it is proven by this failure; otherwise the search is narrowed. A row that
        was cleared and still runs may have failed as well as those of the group."""
        blamed = sorted(request_ids)
        if self._groups:
            blamed = blamed or sorted(self._groups[0])
            self._groups.pop(0)
        if len(blamed) == 1:
            return blamed[0]
        middle = len(blamed) // 2
        halves = [set(blamed[:middle]), set(blamed[middle:])]
        self._groups = [half for half in halves if half] + self._groups
        return None

    def clear(self, request_id: str) -> None:
        """This row has drawn a token, or is gone."""
        if not self._groups:
            return
        for group in self._groups:
            group.discard(request_id)
        self._groups = [group for group in self._groups if group]
