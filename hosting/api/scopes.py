"""Which scope a key needs for which address of the API. An address without a line here is refused.

Imports nothing of rest_framework's views: REST_FRAMEWORK names this module while they load.
"""

from __future__ import annotations

from django.urls import ResolverMatch
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from accounts.models import ApiKey, Scope

_WORK = (Scope.ANSWERS, Scope.VECTORS)  # either will do

# Address as in urls.py; None: open to every key
SCOPES: dict[str, Scope | tuple[Scope, ...] | None] = {
    "v1/chat/completions": Scope.ANSWERS,
    "v1/completions": Scope.ANSWERS,
    "v1/responses": Scope.ANSWERS,
    "v1/responses/input_tokens": Scope.ANSWERS,
    "v1/messages": Scope.ANSWERS,
    "v1/messages/count_tokens": Scope.ANSWERS,
    "v1/messages/batches": Scope.ANSWERS,
    "v1/messages/batches/<str:batch_id>": Scope.ANSWERS,
    "v1/messages/batches/<str:batch_id>/cancel": Scope.ANSWERS,
    "v1/messages/batches/<str:batch_id>/results": Scope.ANSWERS,
    "v1/embeddings": Scope.VECTORS,
    "v1/rerank": Scope.VECTORS,
    "v2/rerank": Scope.VECTORS,
    "rerank": Scope.VECTORS,
    "v1/admin/usage": Scope.ADMIN_READ,
    "v1/admin/live": Scope.ADMIN_READ,
    "v1/batches": _WORK,  # and what its endpoint needs
    "v1/batches/<str:batch_id>": _WORK,
    "v1/batches/<str:batch_id>/cancel": _WORK,
    "v1/files": _WORK,
    "v1/files/<str:file_id>": _WORK,
    "v1/files/<str:file_id>/content": _WORK,
    "v1/models": None,
    "v1/models/<path:name>": None,
}


class KeyIsMeantForThis(BasePermission):
    """A key is used for what it was made for."""

    message = "This API key is not meant for this address."
    code = "insufficient_permissions"

    def has_permission(self, request: Request, view: object) -> bool:
        match: ResolverMatch | None = request.resolver_match
        if not isinstance(request.auth, ApiKey) or match is None or match.route not in SCOPES:
            return False
        return may_use(request.auth, match.route)


def may_use(key: ApiKey, route: str) -> bool:
    scopes = SCOPES[route]
    if isinstance(scopes, tuple):
        return any(map(key.may, scopes))
    return scopes is None or key.may(scopes)
