"""To the OpenID Connect provider and back: the code flow with PKCE, a state and a nonce."""

from __future__ import annotations

import secrets
from typing import Any

from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.app_settings import UID_MAX_LENGTH
from allauth.socialaccount.models import SocialLogin, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException

from accounts.adapters import failed_page
from accounts.id_tokens import is_signed_by
from accounts.oidc import is_configured

# What allauth raises for an answer that lacks something, or has something else in its place
_MALFORMED = (KeyError, TypeError, ValueError, ImproperlyConfigured)


@require_POST
@never_cache
def start(request: HttpRequest) -> HttpResponse:
    """Signs in; for who is signed in, connects the identity to their account.

    The way out is a page that leads on: browsers hold a form's redirects to `form-action 'self'`.
    """
    if not is_configured():
        raise Http404
    process = "connect" if request.user.is_authenticated else "login"
    if process == "connect":
        raise_if_reauthentication_required(request, app="allauth.socialaccount")
    wanted = request.POST.get("next", "")
    next_url = wanted if get_account_adapter(request).is_safe_url(wanted) else None
    provider = get_adapter().get_provider(request, settings.OIDC_PROVIDER_ID)
    nonce = secrets.token_urlsafe(32)
    params = {"nonce": nonce}
    try:
        leave = provider.redirect(request, process, next_url, auth_params=params, nonce=nonce)
    except (RequestException, *_MALFORMED):
        return failed_page(request)
    return render(request, "accounts/leaving.html", {"url": leave.url, "name": settings.OIDC_NAME})


@require_GET
@never_cache
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The provider's answer. Whatever is wrong with it, nobody comes in."""
    if not is_configured():
        raise Http404
    try:
        return OAuth2CallbackView.adapter_view(_CodeFlow(request, provider_id))(request)
    except (RequestException, *_MALFORMED):
        return failed_page(request)


class _CodeFlow(OpenIDConnectOAuth2Adapter):
    """Takes no answer without an ID token, and none that is not signed with the provider's keys."""

    def complete_login(
        self, request: HttpRequest, app: Any, token: SocialToken, **kwargs: Any
    ) -> SocialLogin:
        with get_adapter().get_requests_session() as session:
            keys = session.get(self.openid_config["jwks_uri"]).json()["keys"]
        if not is_signed_by(kwargs["response"].get("id_token") or "", keys):
            raise OAuth2Error("no signed ID token")
        answer = super().complete_login(request, app, token, **kwargs)
        # A subject is its issuer's: with another provider, the same one is somebody else
        issuer = answer.account.extra_data["id_token"]["iss"]
        answer.account.uid = f"{issuer} {answer.account.uid}"
        if len(answer.account.uid) > UID_MAX_LENGTH:
            raise OAuth2Error("issuer and subject are too long")
        return answer
