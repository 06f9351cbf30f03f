"""Whether an ID token was signed by its provider. What it says is checked elsewhere.

django-allauth trusts a token that came straight from the provider over TLS, as the standard
allows. An issuer on a LAN may have no TLS.
"""

from __future__ import annotations

from typing import Any

import jwt

# Never `none`, and nothing that the client's secret could sign
ALGORITHMS = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
]


def is_signed_by(token: str, keys: list[dict[str, Any]]) -> bool:
    """`keys` are the provider's, as its JWKS document has them. A token may name none of them."""
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        return False
    if header["alg"] not in ALGORITHMS:
        return False
    wanted = header.get("kid")
    fitting = [key for key in keys if wanted in (None, key.get("kid"))]
    return any(_fits(token, key, header["alg"]) for key in fitting)


def _fits(token: str, key: dict[str, Any], algorithm: str) -> bool:
    try:
        jwt.PyJWS().decode(token, jwt.PyJWK(key, algorithm), algorithms=[algorithm])
    except jwt.PyJWTError:
        return False
    return True
