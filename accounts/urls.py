"""Addresses of the account pages."""

from django.urls import path

from accounts.views import api_keys, people, setup, sign_in

urlpatterns = [
    path("accounts/sign-in/", sign_in.SignInView.as_view(), name="sign-in"),
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
