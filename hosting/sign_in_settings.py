"""How people sign in beyond a password: second factors, passkeys, an OpenID Connect provider.

Variable                 Default   Meaning
HEARTH_REQUIRE_MFA       nobody    administrators: they add a second factor before anything else
HEARTH_OIDC_ISSUER                 the provider's address; without it there is none
HEARTH_OIDC_CLIENT_ID              what the provider knows this installation by
HEARTH_OIDC_CLIENT_SECRET          the secret that goes with it
HEARTH_OIDC_NAME         SSO       what the button on the sign-in page calls it
HEARTH_OIDC_SCOPES                 asked for besides openid, profile and email, with commas
HEARTH_OIDC_CREATE       0         1: whoever the provider lets in gets an account
HEARTH_OIDC_LINK_EMAIL   0         1: a verified e-mail is enough to become the person who has it
HEARTH_OIDC_TRUST_EMAIL  0         1: e-mails count as verified though the provider does not say so
HEARTH_OIDC_GROUPS_CLAIM groups    the claim with a person's groups
HEARTH_OIDC_GROUPS                 value=group pairs, with commas
HEARTH_OIDC_ADMIN_GROUP            the value that makes administrators, and whose loss unmakes them

django-allauth does the work. These are its settings and ours; hosting/settings.py takes both.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from hosting import environment

# -- Second factors -------------------------------------------------------------------------------

REQUIRE_MFA = environment.choice("HEARTH_REQUIRE_MFA", "nobody", "administrators")

MFA_ADAPTER = "accounts.adapters.MfaAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_RECOVERY_CODE_COUNT = 10
MFA_TOTP_ISSUER = "Hearth"
MFA_TOTP_TOLERANCE = 1  # steps of 30 s: clocks differ, and people type slowly
MFA_ALLOW_UNVERIFIED_EMAIL = True  # nobody signs up here: who has an account was let in

# -- allauth's account part: our pages stay, it holds the way from factor to factor ---------------

ACCOUNT_ADAPTER = "accounts.adapters.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGIN_TIMEOUT = 600  # seconds from the password to the second factor
# accounts/sign_in_throttle.py counts instead: exactly, for every process, over restarts
ACCOUNT_RATE_LIMITS = MFA_RATE_LIMITS = False

# -- OpenID Connect --------------------------------------------------------------------------------

OIDC_PROVIDER_ID = "oidc"
OIDC_ISSUER = environment.text("HEARTH_OIDC_ISSUER").rstrip("/")
OIDC_NAME = environment.text("HEARTH_OIDC_NAME", "SSO")
OIDC_MAY_CREATE = environment.flag("HEARTH_OIDC_CREATE")
OIDC_MAY_LINK_EMAIL = environment.flag("HEARTH_OIDC_LINK_EMAIL")
OIDC_TRUSTS_EMAIL = environment.flag("HEARTH_OIDC_TRUST_EMAIL")
OIDC_GROUPS_CLAIM = environment.text("HEARTH_OIDC_GROUPS_CLAIM", "groups")
OIDC_GROUPS = environment.pairs("HEARTH_OIDC_GROUPS")
OIDC_ADMIN_GROUP = environment.text("HEARTH_OIDC_ADMIN_GROUP")


def oidc_providers(issuer: str, client_id: str, secret: str, scopes: list[str]) -> dict[str, Any]:
    """allauth's description of the one provider, or of none."""
    if not issuer:
        return {}
    if not client_id:
        raise ImproperlyConfigured("HEARTH_OIDC_ISSUER needs HEARTH_OIDC_CLIENT_ID beside it.")
    app = {
        "provider_id": OIDC_PROVIDER_ID,
        "name": OIDC_NAME,
        "client_id": client_id,
        "secret": secret,
        "settings": {
            "server_url": issuer,
            "oauth_pkce_enabled": True,
            "scope": ["openid", "profile", "email", *scopes],
        },
    }
    return {"openid_connect": {"APPS": [app]}}


SOCIALACCOUNT_ADAPTER = "accounts.adapters.OidcAdapter"
SOCIALACCOUNT_REAUTHENTICATION_REQUIRED = True
SOCIALACCOUNT_PROVIDERS = oidc_providers(
    OIDC_ISSUER,
    environment.text("HEARTH_OIDC_CLIENT_ID"),
    environment.text("HEARTH_OIDC_CLIENT_SECRET"),
    environment.names("HEARTH_OIDC_SCOPES"),
)
