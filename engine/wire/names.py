"""Where the two sides meet: every name in Redis, and where the private Redis listens."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.parse


class Keys:
    """Every name that the two sides share in Redis. {id} is a request_id."""

    INTAKE = "hearth:intake"  # stream of Generate, Embed, Rerank and CountTokens
    INTAKE_GROUP = "intake"  # the consumer group that reads it
    CONTROL = "hearth:control"  # stream of Notices to the engines that are up
    FORGET = "hearth:forget"  # stream of what is to be forgotten; every engine reads all of it
    WORK = "hearth:work"  # stream of one entry: something waits in a fair queue
    MODELS = "hearth:models"  # string: the Configure in force
    TERMINAL = "hearth:terminal"  # stream of ended request ids, read by the ledger's consumer group
    TERMINAL_GROUP = "ledger"
    LEASES = "hearth:leases"  # sorted set: request_id by lease expiry, ms
    ENGINES = "hearth:engines"  # set of engine names

    @staticmethod
    def request(request_id: str) -> str:
        """Hash: state, owner, fence, seq and payload of one request."""
        return f"hearth:request:{request_id}"

    @staticmethod
    def events(request_id: str) -> str:
        """Stream of one request's events: `seq` n has the entry id n+1-born, the field `e`.

        `born`: when it was submitted, in ms; another one where Redis lost it and was given it anew.
        """
        return f"hearth:events:{request_id}"

    @staticmethod
    def hub_wake(hub: str) -> str:
        """Stream that wakes a web process's one blocking read."""
        return f"hearth:wake:{hub}"

    @staticmethod
    def engine(name: str) -> str:
        """String with expiry: an engine's last EngineStatus."""
        return f"hearth:engine:{name}"

    @staticmethod
    def engine_life(name: str) -> str:
        """String: which life of an engine took its leases."""
        return f"hearth:life:{name}"

    @staticmethod
    def engine_forgot(name: str) -> str:
        """String: the entry of FORGET up to which an engine has acted, in all its lives."""
        return f"hearth:engine-forgot:{name}"


def entry_id(seq: int, born: str = "0") -> str:
    """The id of event `seq` in its stream (Redis does not allow 0-0), or the lowest it may have."""
    return f"{seq + 1}-{born}"


def entry_seq(stream_id: str | bytes) -> int:
    text = stream_id.decode() if isinstance(stream_id, bytes) else stream_id
    return int(text.split("-")[0]) - 1


def entry_born(stream_id: str) -> str:
    return stream_id.split("-")[1]


def default_redis_url(data_dir: str) -> str:
    """Where an installation's private Redis listens. macOS allows socket paths of 104 bytes."""
    socket_path = os.path.join(os.path.realpath(data_dir), "run", "redis.sock")
    if len(socket_path.encode()) > 90:
        digest = hashlib.sha256(socket_path.encode()).hexdigest()[:12]
        socket_path = os.path.join(
            tempfile.gettempdir(), f"hearth-{os.getuid()}-{digest}", "redis.sock"
        )
    return f"unix://{urllib.parse.quote(socket_path)}"
