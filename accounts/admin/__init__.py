"""People, groups, keys, usage and the audit record in the administration."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin

from accounts.admin import api_keys, audit, people, policy, quotas, usage

__all__ = ["api_keys", "audit", "people", "policy", "quotas", "usage"]

# People keep their own factors; the provider is set in the environment; e-mails are people's fields
for _model in (Authenticator, EmailAddress, SocialAccount, SocialApp, SocialToken):
    admin.site.unregister(_model)
