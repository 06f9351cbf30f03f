"""How requests and events travel between Redis and the processes without Django: engine and intake.

The only package of engine/ that imports redis. It does not know what a request asks for.
"""

from engine.transport.connection import Outage, RedisAway
from engine.transport.intake_queue import BLOCK_MS, Entry, IntakeQueue
from engine.transport.namesake import NameTaken, check_name
from engine.transport.transport import Transport

__all__ = [
    "BLOCK_MS",
    "Entry",
    "IntakeQueue",
    "NameTaken",
    "Outage",
    "RedisAway",
    "Transport",
    "check_name",
]
