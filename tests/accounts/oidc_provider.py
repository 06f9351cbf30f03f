"""The OpenID Connect provider that the tests sign in with, as its users see it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit


class Provider:
    """What the tests do with it, as its users and its administrator."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.issuer = f"http://localhost:{port}"

    def ask(self, method: str, path: str, body: Any = None, *, form: bool = False) -> Any:
        """The response, its body read into `.text`."""
        connection = http.client.HTTPConnection("localhost", self.port, timeout=10)
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        text = urlencode(body or {}) if form else json.dumps(body or {})
        connection.request(method, path, text, {"Content-Type": kind})
        response: Any = connection.getresponse()
        response.text = response.read().decode()
        connection.close()
        return response

    def register(self, redirect_uri: str) -> dict[str, str]:
        """A client's id and secret."""
        method = "client_secret_post"
        body = {"redirect_uris": [redirect_uri], "token_endpoint_auth_method": method}
        answer = json.loads(self.ask("POST", "/oauth2/clients", body).text)
        return {"client_id": answer["client_id"], "secret": answer["client_secret"]}

    def knows(self, subject: str, **claims: Any) -> None:
        self.ask("PUT", f"/users/{subject}", claims)

    def misbehaves(self, **faults: Any) -> None:
        self.ask("PUT", "/faults", faults)

    def consent(self, url: str, subject: str) -> str:
        """Sign in at the provider; where it sends the browser then."""
        place = urlsplit(url)
        answer = self.ask("POST", f"{place.path}?{place.query}", {"sub": subject}, form=True)
        assert answer.status == 302, answer.text
        return str(answer.headers["Location"])


@contextlib.contextmanager
def running_provider() -> Iterator[Provider]:
    """In a process of its own, on a port of its own choice."""
    command = [sys.executable, "-m", "tests.accounts.oidc_provider_process"]
    environ = {**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield Provider(int(process.stdout.readline()))
        finally:
            process.kill()
