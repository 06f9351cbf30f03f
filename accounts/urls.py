"""Addresses of the account pages."""

from django.urls import path

from accounts.views import api_keys, setup, sign_in

urlpatterns = [
    path("accounts/sign-in/", sign_in.SignInView.as_view(), name="sign-in"),
    path("accounts/sign-out/", sign_in.SignOutView.as_view(), name="sign-out"),
    path("accounts/password/", sign_in.PasswordView.as_view(), name="password"),
    path("accounts/keys/", api_keys.list_keys, name="api-keys"),
    path("accounts/keys/<int:key_id>/revoke/", api_keys.revoke_key, name="revoke-key"),
    path("setup/<str:token>/", setup.set_up, name="setup"),
]
