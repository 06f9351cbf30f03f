"""A real OpenID Connect provider in a process of its own, which can be told to misbehave.

    python -m tests.accounts.oidc_provider_process      # its port is the first line

oidc-provider-mock does the protocol. Here it also holds clients to PKCE, which it does not by
itself, and changes the ID tokens that it issues: PUT /faults {"aud": "somebody else"}.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import flask
import jwt
import oidc_provider_mock
from cryptography.hazmat.primitives.asymmetric import rsa
from werkzeug.serving import make_server


def provider() -> flask.Flask:
    app = oidc_provider_mock.app(require_client_registration=True, require_nonce=True)
    challenges: dict[str, str] = {}
    faults: dict[str, Any] = {}

    @app.put("/faults")
    def set_faults() -> tuple[str, int]:
        faults.clear()
        faults.update(flask.request.get_json())
        return "", 204

    @app.after_request
    def note_challenge(response: flask.Response) -> flask.Response:
        codes = parse_qs(urlsplit(response.headers.get("Location", "")).query).get("code", [])
        for code in codes:
            challenges[code] = flask.request.args.get("code_challenge", "")
        return response

    @app.before_request
    def check_verifier() -> Any:
        if flask.request.path != "/oauth2/token":
            return None
        digest = hashlib.sha256(flask.request.form.get("code_verifier", "").encode()).digest()
        expected = challenges.pop(flask.request.form.get("code", ""), None)
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == expected:
            return None
        return {"error": "invalid_grant"}, 400

    @app.after_request
    def misbehave(response: flask.Response) -> flask.Response:
        if faults and flask.request.path == "/oauth2/token" and response.status_code == 200:
            body = response.get_json()
            body["id_token"] = _changed(body["id_token"], dict(faults))
            response.set_data(json.dumps(body))
        return response

    return app


def _changed(token: str, faults: dict[str, Any]) -> str | None:
    if faults.pop("no token", False):
        return None
    header = jwt.get_unverified_header(token)
    claims = jwt.decode(token, options={"verify_signature": False}) | faults
    storage = flask.g.oidc_provider_mock_storage
    key: Any = jwt.PyJWK(storage.jwk.as_dict(is_private=True), "RS256").key
    if claims.pop("another key", False):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(claims, key, "RS256", {"kid": header["kid"]})


def main() -> None:
    server = make_server("127.0.0.1", 0, provider(), threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
