"""Addresses of the account pages. The names with underscores are those that allauth asks for.

Of allauth's own addresses there is none: what is not listed here does not exist.
"""

from django.conf import settings
from django.urls import path

from accounts.views import api_keys, oidc, people, second_factor, security, setup, sign_in

_PROVIDER = {"provider_id": settings.OIDC_PROVIDER_ID}

urlpatterns = [
    path("accounts/sign-in/", sign_in.SignInView.as_view(), name="sign-in"),
    path("accounts/sign-in/", sign_in.SignInView.as_view(), name="account_login"),
    path(
        "accounts/sign-in/passkey/",
        second_factor.PasskeySignInView.as_view(),
        name="mfa_login_webauthn",
    ),
    path(
        "accounts/second-factor/", second_factor.SecondFactorView.as_view(), name="mfa_authenticate"
    ),
    path("accounts/oidc/", oidc.start, name="oidc"),
    path("accounts/oidc/callback/", oidc.callback, _PROVIDER, name="openid_connect_callback"),
    path("accounts/oidc/disconnect/", security.disconnect, name="oidc-disconnect"),
    path(
        "accounts/confirm/",
        second_factor.ConfirmByPasswordView.as_view(),
        name="account_reauthenticate",
    ),
    path(
        "accounts/confirm/code/",
        second_factor.ConfirmByCodeView.as_view(),
        name="mfa_reauthenticate",
    ),
    path(
        "accounts/confirm/passkey/",
        second_factor.ConfirmByPasskeyView.as_view(),
        name="mfa_reauthenticate_webauthn",
    ),
    path("accounts/security/", security.security, name="security"),
    path("accounts/security/", security.security, name="mfa_index"),
    path("accounts/security/app/", security.AddAppView.as_view(), name="mfa_activate_totp"),
    path(
        "accounts/security/app/remove/",
        security.RemoveAppView.as_view(),
        name="mfa_deactivate_totp",
    ),
    path("accounts/security/passkey/", security.AddPasskeyView.as_view(), name="mfa_add_webauthn"),
    path(
        "accounts/security/passkey/<int:pk>/remove/",
        security.RemovePasskeyView.as_view(),
        name="mfa_remove_webauthn",
    ),
    path("accounts/security/codes/", security.CodesView.as_view(), name="mfa_view_recovery_codes"),
    path(
        "accounts/security/codes/new/",
        security.NewCodesView.as_view(),
        name="mfa_generate_recovery_codes",
    ),
    path("accounts/sign-out/elsewhere/", security.sign_out_elsewhere, name="sign-out-elsewhere"),
    path("accounts/sign-out/", sign_in.SignOutView.as_view(), name="sign-out"),
    path("accounts/password/", sign_in.PasswordView.as_view(), name="password"),
    path("accounts/keys/", api_keys.list_keys, name="api-keys"),
    path("accounts/keys/<int:key_id>/revoke/", api_keys.revoke_key, name="revoke-key"),
    path("accounts/keys/<int:key_id>/rotate/", api_keys.rotate_key, name="rotate-key"),
    path(
        "accounts/service-accounts/<int:user_id>/keys/", api_keys.service_keys, name="service-keys"
    ),
    path("accounts/people/", people.people, name="people"),
    path(
        "accounts/people/service-accounts/", people.add_service_account, name="add-service-account"
    ),
    path(
        "accounts/invitations/<int:invitation_id>/withdraw/",
        people.withdraw_invitation,
        name="withdraw-invitation",
    ),
    path("invitation/<str:token>/", people.accept_invitation, name="accept-invitation"),
    path("setup/<str:token>/", setup.set_up, name="setup"),
]
