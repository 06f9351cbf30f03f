"""A page's requests, held back for as long as a test likes."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import APIResponse, Page, Route


class Held:
    """Requests that get no answer before they are let go."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._routes: list[Route] = []
        self._page, self._pattern = page, pattern
        page.route(pattern, self._hold)

    def _hold(self, route: Route) -> None:
        self._routes.append(route)

    def let_go(self, how: Callable[[Route], None] = Route.continue_) -> None:
        for route in self._routes:
            how(route)
        self._page.unroute(self._pattern)


class Answered:
    """Reads that the server has answered, but the page does not know it yet."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._answers: list[tuple[Route, APIResponse]] = []
        page.route(pattern, self._hold)

    def _hold(self, route: Route) -> None:
        if route.request.method != "GET":
            route.continue_()
            return
        self._answers.append((route, route.fetch()))

    def show_first(self) -> None:
        route, answer = self._answers.pop(0)
        route.fulfill(response=answer)
