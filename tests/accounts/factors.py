"""A person's second factors as the tests have them: codes computed as an app computes them."""

from __future__ import annotations

import os
import time
from typing import Any

from allauth.account.internal.flows import login
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.totp.internal.auth import TOTP
from allauth.mfa.webauthn.internal.auth import WebAuthn
from cryptography.hazmat.primitives.asymmetric import ec
from django.test import Client
from fido2.cose import ES256
from fido2.webauthn import (
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorAttestationResponse,
    AuthenticatorData,
    CollectedClientData,
    RegistrationResponse,
)

from accounts.models import User

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def add_app(user: User) -> None:
    TOTP.activate(user, SECRET)


def add_codes(user: User) -> list[str]:
    return RecoveryCodes.activate(user).get_unused_codes()


def add_passkey(user: User, name: str) -> Authenticator:
    """As a browser would have registered it."""
    public_key = ES256.from_cryptography_key(ec.generate_private_key(ec.SECP256R1()).public_key())
    credential = AttestedCredentialData.create(bytes(16), os.urandom(16), public_key)
    flags = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.AT
    data = AuthenticatorData.create(bytes(32), flags, 0, credential)
    registration = RegistrationResponse(
        raw_id=credential.credential_id,
        response=AuthenticatorAttestationResponse(
            client_data=CollectedClientData.create("webauthn.create", bytes(16), "http://x"),
            attestation_object=AttestationObject.create("none", data, {}),
        ),
    )
    return WebAuthn.add(user, name, dict(registration)).instance


def code_of(secret: str = SECRET, *, steps: int = 0) -> str:
    """What an app shows now, or `steps` of 30 s from now."""
    step = int(time.time()) // 30 + steps
    return totp.format_hotp_value(totp.hotp_value(secret, step))


def just_confirmed(browser: Client, user: User) -> None:
    """As after the page that asks for the password or a code once more."""
    session: Any = browser.session
    record = {"method": "password", "at": time.time(), "reauthenticated": True}
    session[login.AUTHENTICATION_METHODS_SESSION_KEY] = [record]
    session[login._AUTHENTICATION_METHODS_USER_SESSION_KEY] = str(user.pk)
    session.save()
