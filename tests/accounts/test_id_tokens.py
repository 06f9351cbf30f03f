"""Signatures of ID tokens: the provider's keys, and nothing that anybody else could make."""

from __future__ import annotations

import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from accounts.id_tokens import is_signed_by

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
PUBLIC_RSA = json.loads(RSAAlgorithm.to_jwk(RSA.public_key()))
KEYS = [
    PUBLIC_RSA | {"kid": "rsa"},
    json.loads(ECAlgorithm.to_jwk(CURVE.public_key())) | {"kid": "curve"},
]
CLAIMS = {"sub": "grace"}


@pytest.mark.parametrize("key, algorithm", [(RSA, "RS256"), (RSA, "PS512"), (CURVE, "ES256")])
@pytest.mark.parametrize("is_named", [True, False])
def test_the_providers_keys_fit_whether_named_or_not(
    key: Any, algorithm: str, is_named: bool
) -> None:
    header = {"kid": "curve" if key is CURVE else "rsa"} if is_named else {}
    assert is_signed_by(jwt.encode(CLAIMS, key, algorithm, header), KEYS)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        jwt.encode(CLAIMS, "", "none"),
        jwt.encode(CLAIMS, PUBLIC_RSA["n"], "HS256", {"kid": "rsa"}),
        jwt.encode(CLAIMS, RSA, "RS256", {"kid": "unknown"}),
        jwt.encode(CLAIMS, ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "curve"}),
        jwt.encode(CLAIMS, RSA, "RS256", {"kid": "rsa"})[:-4] + "AAAA",
    ],
)
def test_nothing_else_does(token: str) -> None:
    assert not is_signed_by(token, KEYS)
    assert not is_signed_by(token, [])
