"""The web side's end of the wire: submit, cancel, look at engines, follow events.

The only package of hosting/ that imports redis. It knows no rows, people or HTTP.
"""

from hosting.engine_client.access import get_client, hub
from hosting.engine_client.client import EngineClient, WaitingRequest
from hosting.engine_client.connection import EngineUnavailable
from hosting.engine_client.follower import Absence
from hosting.engine_client.hub import Hub, StreamLost
from hosting.engine_client.terminal_feed import TerminalFeed

__all__ = [
    "Absence",
    "EngineClient",
    "EngineUnavailable",
    "Hub",
    "StreamLost",
    "TerminalFeed",
    "WaitingRequest",
    "get_client",
    "hub",
]
