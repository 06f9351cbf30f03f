"""The ASGI application: HTTP to Django, websockets from our own pages to their sockets."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hosting.settings")
django.setup(set_prefix=False)  # what is imported below needs the applications

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.urls import path  # noqa: E402

import hosting.urls  # noqa: E402,F401 - every view now, not when the first request comes
from hosting.admin.socket import InstrumentSocket  # noqa: E402
from hosting.asgi_handler import Handler  # noqa: E402
from hosting.behind_proxy import AddressBehindProxy  # noqa: E402
from hosting.own_origin import OwnOriginOnly  # noqa: E402
from hosting.sockets import ChatSocket  # noqa: E402
from hosting.sockets_of_person import LimitedPerPerson  # noqa: E402

_sockets = URLRouter(
    [path("ws/chat", ChatSocket.as_asgi()), path("ws/admin", InstrumentSocket.as_asgi())]
)
_people = AuthMiddlewareStack(LimitedPerPerson(_sockets))
application = ProtocolTypeRouter(
    {
        "http": AddressBehindProxy(Handler()),
        # A session cookie travels with a page of any site: only our own origin may use it
        "websocket": AllowedHostsOriginValidator(OwnOriginOnly(_people)),
    }
)
