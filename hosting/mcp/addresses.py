"""Where a tool server may be. A name is looked up once, and what was checked is connected to.

The address comes from an administrator, but a name's owner decides where it leads, each time anew.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import queue
import socket
import threading
from urllib.parse import urlsplit

from hosting.mcp.errors import ToolServerError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LOOK_UP_SECONDS = 10.0
_PORTS = {"http": 80, "https": 443}
# Not of the internet, whatever ipaddress says: of carriers and private overlay networks, of
# protocols and relays, and the private ones that IPv6 had first
_LOCAL = tuple(
    map(ipaddress.ip_network, ("100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "fec0::/10"))
)
# Where clouds tell a machine its own secrets, outside of the link-local addresses
_METADATA = tuple(
    map(
        ipaddress.ip_network,
        ("fd00:ec2::/32", "fd20:ce::254/128", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    )
)
# Addresses that hold another one, which a gateway would reach
_HOLDERS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))


class ForbiddenAddress(ToolServerError):
    """Nothing was sent to it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`addresses` are those to connect to, the first that answers; `host` is the name for the
    certificate."""

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[str, ...]


def check_url(url: str, *, may_be_private: bool) -> tuple[str, str, int, str]:
    """Scheme, host, port and path. Raises ForbiddenAddress for what is wrong without a look-up."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ForbiddenAddress("This is no address.") from None
    if parts.scheme not in _PORTS or not host:
        raise ForbiddenAddress("The address begins with https:// or http://, and names a host.")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ForbiddenAddress("The address may have plain letters and signs only.")
    if "@" in parts.netloc or parts.fragment:
        raise ForbiddenAddress("The address may have no name, password or # in it.")
    if parts.scheme == "http" and not may_be_private:
        raise ForbiddenAddress("Outside of a private network the address begins with https://.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, host, port or _PORTS[parts.scheme], path


def find_place(url: str, *, may_be_private: bool) -> Place:
    """Raises ForbiddenAddress where any address of the host may not be asked."""
    scheme, host, port, path = check_url(url, may_be_private=may_be_private)
    addresses = [ipaddress.ip_address(one) for one in _look_up(host, port)]
    for address in addresses:
        if not _is_allowed(address, may_be_private=may_be_private):
            raise ForbiddenAddress(
                f"{host[:100]} is at an address that may not be asked. Private ones must be "
                "allowed by an administrator."
            )
    told = tuple(map(str, addresses))
    return Place(scheme=scheme, host=host, port=port, path=path, addresses=told)


def _look_up(host: str, port: int) -> list[str]:
    """Each address once, in the order of the system's, which has no limit of time of its own."""
    answers: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
    asking = (host, port, answers)
    threading.Thread(target=_ask_system, args=asking, name="tool-server-host", daemon=True).start()
    try:
        found = answers.get(timeout=LOOK_UP_SECONDS)
    except queue.Empty:
        late = f"The host {host[:100]} was not found within {LOOK_UP_SECONDS:g} s."
        raise ToolServerError(late) from None
    if found is None:
        raise ToolServerError(f"The host {host[:100]} is not known.")
    return found


def _ask_system(host: str, port: int, answers: queue.SimpleQueue[list[str] | None]) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        answers.put(None)
    else:
        answers.put(list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found)))


def _is_allowed(address: Address, *, may_be_private: bool) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is not None:
            return _is_allowed(inner, may_be_private=may_be_private)
        is_holder = address.sixtofour or address.teredo or any(address in one for one in _HOLDERS)
        if is_holder and not address.is_loopback:
            return False
    if any(address in one for one in _METADATA):
        return False
    if address.is_unspecified or address.is_multicast or address.is_link_local:
        return False
    is_local = any(address in one for one in _LOCAL)
    is_private = address.is_private or address.is_loopback or is_local
    if is_private:
        return may_be_private and (not address.is_reserved or address.is_loopback)
    return address.is_global and not address.is_reserved
