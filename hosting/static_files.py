"""Static files from this process, so that no other server and no network is needed."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import closing
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """WhiteNoise without its thread per request: its own middleware is sync only, and would hold
    a thread for as long as a stream behind it is open.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        file = self._find(request.path_info)
        if file is None:
            return self.get_response(request)  # type: ignore[no-any-return]
        if iscoroutinefunction(self):
            return sync_to_async(self._read, thread_sensitive=False)(file, request)
        return self._read(file, request)

    def _find(self, path: str) -> Any:
        return self.find_file(path) if self.autorefresh else self.files.get(path)

    def _read(self, file: Any, request: HttpRequest) -> HttpResponse:
        """WhiteNoise tells the size of the start; an update may be on the disk since."""
        with closing(self.serve(file, request)) as streamed:
            body = b"".join(streamed.streaming_content)
            headers = dict(streamed.items())
            if request.method == "GET" and "Content-Length" in headers:
                headers["Content-Length"] = str(len(body))
            return HttpResponse(body, status=streamed.status_code, headers=headers)
