"""Django's own middleware, without the threads that it does not need.

Under ASGI Django sends each call of an older middleware to a thread, some 20 for a request. Those
that wait for nothing run in the event loop here; those that may read the database keep their
thread, and API calls, which have neither session nor messages, pass them by.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin

from accounts.second_factors import must_add_one

API_PREFIX = "/v1/"


class _InLoop:
    """For a middleware that only looks at the request and its answer."""

    get_response: Any

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        answer = None
        if hasattr(self, "process_request"):
            answer = self.process_request(request)
        if answer is None:
            answer = await self.get_response(request)
        if hasattr(self, "process_response"):
            answer = self.process_response(request, answer)
        return answer  # type: ignore[no-any-return]


class _PagesOnly:
    """For a middleware that API calls have no use for."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if request.path_info.startswith(API_PREFIX):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]


class Security(_InLoop, SecurityMiddleware):
    pass


class Common(_InLoop, CommonMiddleware):
    pass


class Csrf(_InLoop, CsrfViewMiddleware):
    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        if self.async_mode:
            self.process_view = self._process_view_in_loop

    async def _process_view_in_loop(self, *args: Any) -> Any:
        return super().process_view(*args)


class Authentication(_PagesOnly, _InLoop, AuthenticationMiddleware):
    pass


class FrameOptions(_InLoop, XFrameOptionsMiddleware):
    pass


class Session(_PagesOnly, SessionMiddleware):
    pass


class Messages(_PagesOnly, MessageMiddleware):
    pass


class SecondFactor(_PagesOnly, MiddlewareMixin):
    """Where the settings require it, who has none can do nothing but add one."""

    OPEN = ("/accounts/security/", "/accounts/confirm/", "/accounts/sign-out/")

    def __init__(self, get_response: Any) -> None:
        if settings.REQUIRE_MFA == "nobody":
            raise MiddlewareNotUsed
        super().__init__(get_response)

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:
        if request.path_info.startswith(self.OPEN) or not must_add_one(request.user):
            return None
        return redirect("security")
